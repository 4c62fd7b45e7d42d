"""Random sampling of tokens, independent of the other sentences of the batch."""

import tensorflow as tf

from t2t_keras.decoding import top_k as top_k_module
from t2t_keras.decoding.constraints import IMPOSSIBLE
from t2t_keras.decoding.options import SearchOptions


def sample(
    logits: tf.Tensor, step: tf.Tensor, row_seeds: tf.Tensor, options: SearchOptions
) -> tf.Tensor:
    """Samples a token for each beam with the Gumbel-max trick.

    The argmax of logits plus Gumbel noise is a sample from their softmax. The noise is
    a function of seed, sentence, beam, step and token only.

    Args:
        logits: `[rows, beam, vocab_size]` float32.
        step: Scalar int32, the count of tokens of each beam.
        row_seeds: `[rows]` int32, the random seed of each sentence.
        options: Search options: temperature, top_k, top_p and sample_seed.

    Returns:
        `[rows, beam]` int32.
    """
    logits = _filter_logits(logits / options.temperature, options.top_k, options.top_p)
    beam, vocab = logits.shape[1], tf.shape(logits)[2]
    seed = tf.constant(options.sample_seed % 2**32, tf.uint32)
    seed = _mix(tf.cast(row_seeds, tf.uint32), seed)
    seed = _mix(seed, tf.cast(step, tf.uint32))
    seed = _mix(seed[:, tf.newaxis], tf.range(beam)[tf.newaxis])
    bits = _mix(seed[:, :, tf.newaxis], tf.range(vocab)[tf.newaxis, tf.newaxis])
    return tf.argmax(logits + gumbel(bits), axis=-1, output_type=tf.int32)


def gumbel(bits: tf.Tensor) -> tf.Tensor:
    """Converts random bits to Gumbel noise, which is always finite.

    Args:
        bits: uint32 of any shape.

    Returns:
        float32 of the same shape.
    """
    # A float32 has 24 significant bits: 23 random ones, and 0.5 to avoid 0 and 1.
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


def _filter_logits(logits: tf.Tensor, top_k: int, top_p: float) -> tf.Tensor:
    """Masks tokens outside of top_k and top_p; never masks the most probable one."""
    if top_k:
        largest, _ = top_k_module.top_k(logits, min(top_k, logits.shape[-1]))
        logits = tf.where(logits < largest[..., -1:], IMPOSSIBLE, logits)
    if top_p < 1:
        descending = tf.sort(logits, direction="DESCENDING")
        mass_before = tf.cumsum(tf.nn.softmax(descending), axis=-1, exclusive=True)
        # The smallest set of tokens whose total probability reaches top_p.
        count = tf.reduce_sum(tf.cast(mass_before < top_p, tf.int32), axis=-1)
        threshold = tf.gather(descending, count - 1, batch_dims=2)
        logits = tf.where(logits < threshold[..., tf.newaxis], IMPOSSIBLE, logits)
    return logits
