"""Drawing tokens at random, the same for a sentence whatever its batch."""

import tensorflow as tf

from t2t_keras.decoding import top_k as top_k_module
from t2t_keras.decoding.constraints import IMPOSSIBLE
from t2t_keras.decoding.options import SearchOptions


def draw(
    logits: tf.Tensor, step: tf.Tensor, row_seeds: tf.Tensor, options: SearchOptions
) -> tf.Tensor:
    """Draws a token for each beam.

    The most probable token under logits disturbed by Gumbel noise is a draw from their
    softmax. The noise is a function of (seed, sentence, beam, step, token) alone.

    Args:
        logits: `[rows, beam, vocab_size]` float32.
        step: Scalar int32.
        row_seeds: `[rows]` int32, a number for each sentence.
        options: Temperature, top_k, top_p and seed.

    Returns:
        `[rows, beam]` int32.
    """
    logits = _likeliest(logits / options.temperature, options.top_k, options.top_p)
    beam, vocab = logits.shape[1], tf.shape(logits)[2]
    seed = tf.constant(options.sample_seed % 2**32, tf.uint32)
    seed = _mix(tf.cast(row_seeds, tf.uint32), seed)
    seed = _mix(seed, tf.cast(step, tf.uint32))
    seed = _mix(seed[:, tf.newaxis], tf.range(beam)[tf.newaxis])
    bits = _mix(seed[:, :, tf.newaxis], tf.range(vocab)[tf.newaxis, tf.newaxis])
    return tf.argmax(logits + gumbel(bits), axis=-1, output_type=tf.int32)


def gumbel(bits: tf.Tensor) -> tf.Tensor:
    """Turns random bits into Gumbel noise, which is always finite.

    Args:
        bits: Any shape, uint32.

    Returns:
        float32 of that shape.
    """
    # A float32 holds 24 bits: 23 of these and the half that keeps off 0 and 1.
    bits = tf.bitwise.right_shift(bits, tf.constant(9, tf.uint32))
    uniform = (tf.cast(bits, tf.float32) + 0.5) * 2.0**-23
    return -tf.math.log(-tf.math.log(uniform))


def _mix(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Hashes two unsigned integers into one (the finalizer of MurmurHash3)."""

    def constant(value: int) -> tf.Tensor:
        return tf.constant(value, tf.uint32)

    x = (x ^ (tf.cast(y, tf.uint32) * constant(0x9E3779B9))) + constant(0x7F4A7C15)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ tf.bitwise.right_shift(x, constant(shift))) * constant(factor)
    return x ^ tf.bitwise.right_shift(x, constant(16))


def _likeliest(logits: tf.Tensor, top_k: int, top_p: float) -> tf.Tensor:
    """Masks all but the most probable tokens; always keeps the first one."""
    if top_k:
        greatest, _ = top_k_module.top_k(logits, min(top_k, logits.shape[-1]))
        logits = tf.where(logits < greatest[..., -1:], IMPOSSIBLE, logits)
    if top_p < 1:
        descending = tf.sort(logits, direction="DESCENDING")
        before = tf.cumsum(tf.nn.softmax(descending), axis=-1, exclusive=True)
        # The smallest set whose probability reaches top_p.
        number = tf.reduce_sum(tf.cast(before < top_p, tf.int32), axis=-1)
        least = tf.gather(descending, number - 1, batch_dims=2)
        logits = tf.where(logits < least[..., tf.newaxis], IMPOSSIBLE, logits)
    return logits
