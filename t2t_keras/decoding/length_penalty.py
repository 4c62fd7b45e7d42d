"""The length penalty that hypotheses are ranked with."""

import tensorflow as tf


def length_penalty_of(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """((5 + length) / 6)^alpha (Wu et al., 2016, eq. 14).

    Args:
        length: Number of tokens, the end included.
        alpha: The exponent; 0 for no penalty.

    Returns:
        float32 of the shape of `length`.
    """
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)
