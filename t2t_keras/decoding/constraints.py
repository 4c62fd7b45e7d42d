"""Constraints on the next token of an output."""

import tensorflow as tf

from t2t_keras.special_tokens import BOS_ID, EOS_ID, PAD_ID

IMPOSSIBLE = -1e9
"""The log-probability of forbidden tokens."""


def no_padding_or_start(vocab_size: int) -> tf.Tensor:
    """Returns what to add to logits: padding and start are no output.

    Args:
        vocab_size: Number of tokens.

    Returns:
        `[vocab_size]` float32.
    """
    return tf.scatter_nd([[PAD_ID], [BOS_ID]], [IMPOSSIBLE, IMPOSSIBLE], [vocab_size])


def forbid_early_end(logits: tf.Tensor, step: tf.Tensor, min_length: int) -> tf.Tensor:
    """Forbids the end token before an output has its minimum length.

    Args:
        logits: `[rows, beam, vocab_size]` float32.
        step: Scalar int32, tokens that the outputs have.
        min_length: Minimum number of tokens.
    """
    end = tf.one_hot(EOS_ID, tf.shape(logits)[-1], IMPOSSIBLE, 0.0)
    return logits + tf.where(step < min_length, end, tf.zeros_like(end))


def forbid_repeated_ngrams(logits: tf.Tensor, ids: tf.Tensor, size: int) -> tf.Tensor:
    """Forbids tokens that would repeat an n-gram of an output.

    Args:
        logits: `[rows, beam, vocab_size]` float32.
        ids: `[rows, beam, step]` int32, the outputs so far.
        size: Number of tokens of an n-gram, at least 2.
    """

    def forbid() -> tf.Tensor:
        # [rows, beam, step - size + 2, size - 1]: all beginnings, the last one last.
        beginnings = tf.signal.frame(ids, size - 1, 1, axis=2)
        same = tf.reduce_all(beginnings[:, :, :-1] == beginnings[:, :, -1:], axis=-1)
        # [rows, beam, step - size + 1]: what followed each of them but the last.
        followers = ids[:, :, size - 1 :]
        place = tf.where(same)
        tokens = tf.cast(tf.gather_nd(followers, place), tf.int64)
        place = tf.concat([place[:, :2], tokens[:, tf.newaxis]], axis=1)
        values = tf.fill([tf.shape(place)[0]], IMPOSSIBLE)
        return tf.tensor_scatter_nd_min(logits, place, values)

    return tf.cond(tf.shape(ids)[2] >= size, forbid, lambda: logits)


def force(
    constrained: tf.Tensor, logits: tf.Tensor, step: tf.Tensor, prefix: tf.Tensor
) -> tf.Tensor:
    """Leaves rows whose prefix is not over yet no choice but its next token.

    Args:
        constrained: `[rows, beam, vocab_size]` float32, for rows that are free.
        logits: Likewise, before any rule: a prefix may break all others.
        step: Scalar int32, tokens that the outputs have.
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
