"""Length penalty of hypotheses."""

import tensorflow as tf


def length_penalty_of(length: tf.Tensor, alpha: float, beta: float = 5.0) -> tf.Tensor:
    """Returns ((beta + length) / (beta + 1))^alpha.

    With beta = 5, equation 14 of Wu et al. (2016). With beta = 0, length^alpha, the
    normalization of Marian, Hugging Face's transformers and CTranslate2.

    Args:
        length: Number of tokens, end token included.
        alpha: Exponent (0 = no penalty).
        beta: Constant added to lengths, at least 0. Default 5.

    Returns:
        float32 with the shape of `length`.
    """
    return tf.pow((beta + tf.cast(length, tf.float32)) / (beta + 1.0), alpha)
