"""Length penalty and scores of hypotheses."""

import tensorflow as tf

from t2t_keras.decoding.options import SearchOptions


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


def hypothesis_scores(
    log_probs: tf.Tensor, length: tf.Tensor, options: SearchOptions
) -> tf.Tensor:
    """Returns the scores of hypotheses: log-probability divided by length penalty.

    Args:
        log_probs: Log-probabilities, float32 of any shape.
        length: Number of tokens, end token included, int32; broadcast to `log_probs`.
        options: Search options, which determine the penalty.
    """
    return log_probs / length_penalty_of(
        length, options.length_penalty, options.length_penalty_beta
    )
