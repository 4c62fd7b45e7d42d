"""Length penalty of hypotheses."""

import tensorflow as tf


def length_penalty_of(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """Returns ((5 + length) / 6)^alpha (Wu et al., 2016, eq. 14).

    Args:
        length: Number of tokens, end token included.
        alpha: Exponent (0 = no penalty).

    Returns:
        float32 with the shape of `length`.
    """
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)
