"""Constraints on the next token of an output."""

import tensorflow as tf

from t2t_keras.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

IMPOSSIBLE = -1e9
"""Mask value: the log-probability of blocked tokens."""


def no_padding_or_start(vocab_size: int) -> tf.Tensor:
    """Returns a mask to add to logits, which blocks the padding and start tokens.

    Args:
        vocab_size: Number of tokens.

    Returns:
        `[vocab_size]` float32.
    """
    return tf.scatter_nd([[PAD_ID], [BOS_ID]], [IMPOSSIBLE, IMPOSSIBLE], [vocab_size])


def block_unknown(logits: tf.Tensor) -> tf.Tensor:
    """Blocks the unknown token.

    Args:
        logits: `[rows, beam, vocab_size]` float32.
    """
    return logits + tf.one_hot(UNK_ID, tf.shape(logits)[-1], IMPOSSIBLE, 0.0)


def enforce_min_length(
    logits: tf.Tensor, step: tf.Tensor, min_length: int
) -> tf.Tensor:
    """Blocks the end token until an output has its minimum length.

    Args:
        logits: `[rows, beam, vocab_size]` float32.
        step: Scalar int32, the number of tokens of each output.
        min_length: Minimum number of tokens.
    """
    end = tf.one_hot(EOS_ID, tf.shape(logits)[-1], IMPOSSIBLE, 0.0)
    return logits + tf.where(step < min_length, end, tf.zeros_like(end))


def block_repeated_ngrams(logits: tf.Tensor, ids: tf.Tensor, size: int) -> tf.Tensor:
    """Blocks tokens that would repeat an n-gram of an output.

    Args:
        logits: `[rows, beam, vocab_size]` float32.
        ids: `[rows, beam, step]` int32, the outputs so far.
        size: Number of tokens of an n-gram, at least 2.
    """

    def block() -> tf.Tensor:
        # [rows, beam, step - size + 2, size - 1]: all (n-1)-grams; the last one is the
        # context of the next token.
        contexts = tf.signal.frame(ids, size - 1, 1, axis=2)
        is_same = tf.reduce_all(contexts[:, :, :-1] == contexts[:, :, -1:], axis=-1)
        # [rows, beam, step - size + 1]: the tokens after each of the earlier ones.
        followers = ids[:, :, size - 1 :]
        indices = tf.where(is_same)
        tokens = tf.cast(tf.gather_nd(followers, indices), tf.int64)
        indices = tf.concat([indices[:, :2], tokens[:, tf.newaxis]], axis=1)
        values = tf.fill([tf.shape(indices)[0]], IMPOSSIBLE)
        return tf.tensor_scatter_nd_min(logits, indices, values)

    return tf.cond(tf.shape(ids)[2] >= size, block, lambda: logits)


def force_prefix(
    constrained: tf.Tensor, logits: tf.Tensor, step: tf.Tensor, prefix: tf.Tensor
) -> tf.Tensor:
    """Blocks all tokens but the next one of the prefix in rows within their prefix.

    Args:
        constrained: `[rows, beam, vocab_size]` float32, the logits of the other rows,
            with all other constraints.
        logits: `[rows, beam, vocab_size]` float32 without constraints: a prefix takes
            precedence over them.
        step: Scalar int32, the number of tokens of each output.
        prefix: `[rows, prefix]` int32, 0 for padding.
    """
    length = tf.shape(prefix)[1]

    def forced() -> tf.Tensor:
        token = prefix[:, step]
        only = tf.one_hot(token, tf.shape(logits)[-1], 0.0, IMPOSSIBLE)
        # [rows] -> [rows, 1, 1]
        is_free = (token == PAD_ID)[:, tf.newaxis, tf.newaxis]
        # [rows, vocab_size] -> [rows, 1, vocab_size]
        return tf.where(is_free, constrained, logits + only[:, tf.newaxis])

    return tf.cond(step < length, forced, lambda: constrained)
