"""Label-smoothed cross entropy (section 5.4), averaged over non-padding tokens.

This is the reference implementation, for `Model.compile`, R-Drop and tests. Without
R-Drop, the training step computes the same loss from decoder states with
`OutputProjection.fused_token_losses`; a change belongs in both.
"""

from typing import Any

import keras
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.layers.output_projection import exact_dtype
from t2t_keras.special_tokens import PAD_ID


def token_losses(
    labels: tf.Tensor, logits: tf.Tensor, label_smoothing: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes the cross entropy of each token with and without label smoothing.

    The smoothed target spreads a probability of `label_smoothing` evenly over all
    tokens (Szegedy et al., 2016), including the reference token. It is never
    materialized: the log-likelihood, the logit of the reference token and the mean
    logit suffice.

    Args:
        labels: `[n]` integer, the reference tokens.
        logits: `[n, vocab_size]` float.
        label_smoothing: Probability spread over the vocabulary.

    Returns:
        The smoothed losses and the negative log-likelihoods, each `[n]`, in nats,
        float64 for float64 logits and float32 for all others.
    """
    logits = tf.cast(logits, exact_dtype(logits))
    labels = tf.cast(labels, tf.int32)  # Keras passes labels to losses as float32.
    nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    gold = tf.gather(logits, labels, axis=1, batch_dims=1)
    return nll + label_smoothing * (gold - tf.reduce_mean(logits, axis=1)), nll


def divergence(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Computes the symmetric KL divergence of two predictions.

    Args:
        first: `[n, vocab_size]` float logits, p.
        second: `[n, vocab_size]` float logits, q.

    Returns:
        (KL(p || q) + KL(q || p)) / 2, `[n]`, in nats, with the dtype of `token_losses`.
    """
    p, q = (tf.nn.log_softmax(tf.cast(x, exact_dtype(x))) for x in (first, second))
    return tf.reduce_sum((tf.exp(p) - tf.exp(q)) * (p - q), axis=1) / 2


@keras.saving.register_keras_serializable("t2t_keras")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """Mean of `token_losses` over non-padding target tokens, for `Model.compile`.

    Keras's own reductions also divide by the padding positions, and its sparse cross
    entropy does not support label smoothing.

    Args:
        label_smoothing: Probability spread over the vocabulary. Default 0.1.

    Call arguments:
        y_true: `[batch, target]` integer tokens, 0 for padding.
        y_pred: `[batch, target, vocab_size]` logits.
        sample_weight: Optional weights of sentences, `[batch]`, or of tokens,
            `[batch, target]`. Scalars and axes of size 1 are broadcast.

    Returns:
        A scalar, in nats per token.

    Raises:
        UserError: If `label_smoothing` is outside [0, 1).
        ValueError: If `y_pred` or `sample_weight` has the wrong shape.
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        name: str = "label_smoothed_cross_entropy",
        **kwargs: Any,
    ) -> None:
        kwargs["reduction"] = "mean_with_sample_weight"
        super().__init__(name=name, **kwargs)
        if not 0 <= label_smoothing < 1:
            raise UserError(
                f"label_smoothing must be in [0, 1). Received: {label_smoothing}"
            )
        self.label_smoothing = label_smoothing

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Returns the smoothed loss of each position, `[batch, target]`."""
        if not y_pred.shape[:-1].is_compatible_with(y_true.shape):
            raise ValueError(
                "y_pred must have the shape of y_true and an axis of logits. Received "
                f"shapes: y_true {y_true.shape}, y_pred {y_pred.shape}"
            )
        shape = tf.shape(y_true)
        checks = []
        if not (
            y_pred.shape[:-1].is_fully_defined() and y_true.shape.is_fully_defined()
        ):
            checks.append(tf.debugging.assert_equal(tf.shape(y_pred)[:-1], shape))
        with tf.control_dependencies(checks):
            labels = tf.reshape(y_true, [-1])
        smoothed, _ = token_losses(
            labels,
            tf.reshape(y_pred, [-1, y_pred.shape[-1]]),
            self.label_smoothing,
        )
        # [batch * target] -> [batch, target]
        return tf.reshape(smoothed, shape)

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> tf.Tensor:
        """Averages over the non-padding positions."""
        y_true = tf.convert_to_tensor(y_true)
        real = tf.cast(tf.not_equal(y_true, PAD_ID), self.dtype)
        if sample_weight is not None:
            real *= _broadcast_weights(tf.cast(sample_weight, self.dtype), like=y_true)
        return super().__call__(y_true, y_pred, sample_weight=real)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def _broadcast_weights(weights: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Broadcasts weights to the labels' shape; `[batch]` weights along the tokens."""
    known = weights.shape.rank is not None and like.shape.rank is not None
    if known and (
        weights.shape.rank > like.shape.rank
        or any(
            None not in (one, other) and one not in (1, other)
            for one, other in zip(weights.shape, like.shape, strict=False)
        )
    ):
        raise ValueError(
            "sample_weight must have the shape [batch] or [batch, target]. Received: "
            f"sample_weight of shape {weights.shape} for y_true of shape {like.shape}"
        )
    # The rank is unknown after Keras has retraced for weights of both shapes.
    missing = tf.ones([tf.rank(like) - tf.rank(weights)], tf.int32)
    weights = tf.reshape(weights, tf.concat([tf.shape(weights), missing], axis=0))
    return tf.broadcast_to(weights, tf.shape(like))
