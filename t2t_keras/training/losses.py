"""Label-smoothed cross entropy (section 5.4) normalized by real target tokens."""

from typing import Any

import keras
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.tokens import PAD_ID


def token_losses(
    labels: tf.Tensor, logits: tf.Tensor, label_smoothing: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Cross entropy of each token with and without label smoothing.

    The smoothed target gives `label_smoothing` of the probability to all tokens
    alike (Szegedy et al., 2016), the right one included; it is never built: with
    the log-likelihood, the right token's logit and the mean logit suffice.

    Args:
        labels: `[n]` integer, the right tokens.
        logits: `[n, vocab_size]` float.
        label_smoothing: The share of probability spread over the vocabulary.

    Returns:
        The smoothed losses and the negative log-likelihoods, each `[n]`, in nats,
        float64 for float64 logits and float32 for all others.
    """
    logits = tf.cast(logits, _exact_dtype(logits))
    labels = tf.cast(labels, tf.int32)  # Keras hands losses every label as float32.
    nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    gold = tf.gather(logits, labels, axis=1, batch_dims=1)
    return nll + label_smoothing * (gold - tf.reduce_mean(logits, axis=1)), nll


def projected_token_losses(
    labels: tf.Tensor,
    states: tf.Tensor,
    embeddings: tf.Tensor,
    label_smoothing: float,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """`token_losses` of `states` projected on `embeddings`, without its logits' cost.

    Three of the four passes over `[n, vocab_size]` numbers that the plain form makes
    are saved: the right token's logit and the mean logit are products of a state
    with one row and with the mean row, and a token's share in the gradient scales
    `[n, d_model]` numbers on either side of the softmax, not the softmax itself.

    In low precision, the smoothed target is subtracted from the softmax in float32,
    before rounding: for a confident model the difference is smaller than the rounding
    error of the softmax. The entry of the right token is kept in float32.

    Args:
        labels: `[n]` integer, the right tokens.
        states: `[n, d_model]` float, the decoder's output.
        embeddings: `[vocab_size, d_model]` float, `SharedEmbedding.matrix()`; the
            product with `states` is computed in the dtype of `states`.
        label_smoothing: The share of probability spread over the vocabulary.

    Returns:
        The smoothed losses and the negative log-likelihoods, each `[n]`, in nats,
        and whether the right token was the likeliest, `[n]` bool.
    """
    exact = _exact_dtype(states)
    is_rounded = states.dtype != exact
    labels = tf.cast(labels, tf.int32)
    # Rows are gathered from the matrix as it is: a gradient that adds up thousands
    # of equal tokens loses most of them in low precision.
    rows = tf.cast(tf.gather(embeddings, labels), exact)
    mean_row = tf.reduce_mean(tf.cast(embeddings, exact), axis=0)
    matrix = tf.cast(embeddings, states.dtype)
    position = tf.stack([tf.range(tf.shape(labels)[0]), labels], axis=1)

    @tf.custom_gradient
    def log_partition(states: tf.Tensor, matrix: tf.Tensor, rows: tf.Tensor) -> Any:
        """In low precision, its gradient is that of the whole smoothed loss."""
        logits = tf.cast(tf.matmul(states, matrix, transpose_b=True), exact)
        probabilities = tf.nn.softmax(logits)
        # The likeliest token's probability is at least 1 / vocab_size: its
        # logarithm is safe where that of another might be of zero.
        likeliest = tf.reduce_max(probabilities, axis=1)
        log_sum = tf.reduce_max(logits, axis=1) - tf.math.log(likeliest)
        gold_probability = tf.gather_nd(probabilities, position)
        correct = gold_probability >= likeliest
        saved = probabilities
        if is_rounded:
            everywhere = label_smoothing / tf.cast(tf.shape(matrix)[0], exact)
            gold_difference = gold_probability - (1 - label_smoothing) - everywhere
            saved = tf.tensor_scatter_nd_update(
                tf.cast(probabilities - everywhere, states.dtype),
                position,
                tf.zeros_like(labels, states.dtype),
            )

        def gradient(d_log_sum: tf.Tensor, *_: tf.Tensor) -> tuple[Any, Any, Any]:
            scale = d_log_sum[:, tf.newaxis]
            d_states = tf.cast(tf.matmul(saved, matrix), exact) * scale
            scaled = states * tf.cast(scale, states.dtype)
            d_matrix = tf.matmul(saved, scaled, transpose_a=True)
            if not is_rounded:
                return d_states, d_matrix, None
            scale *= gold_difference[:, tf.newaxis]
            d_states = tf.cast(d_states + scale * rows, states.dtype)
            return d_states, d_matrix, scale * tf.cast(states, exact)

        return (log_sum, tf.gather_nd(logits, position), correct), gradient

    log_sum, gold_logit, correct = log_partition(states, matrix, rows)
    exact_states = tf.cast(states, exact)
    gold = tf.reduce_sum(exact_states * rows, axis=1)
    # The value must be rounded as the sum was, or a likelihood could exceed 1.
    gold += tf.stop_gradient(gold_logit - gold)
    mean = tf.linalg.matvec(exact_states, mean_row)
    smoothing = label_smoothing * (gold - mean)
    if not is_rounded:
        nll = log_sum - gold
        return nll + smoothing, nll, correct
    nll = log_sum - tf.stop_gradient(gold)
    smoothed = nll + tf.stop_gradient(smoothing)
    # The value of `nll` with the gradient of the loss without smoothing.
    unsmoothed = smoothed - smoothing
    nll = tf.stop_gradient(nll) + (unsmoothed - tf.stop_gradient(unsmoothed))
    return smoothed, nll, correct


def divergence(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """The mean of two predictions' divergences from one another.

    Args:
        first: `[n, vocab_size]` float logits, p.
        second: Likewise, q.

    Returns:
        (KL(p || q) + KL(q || p)) / 2, `[n]`, in nats, of the dtype of `token_losses`.
    """
    p, q = (tf.nn.log_softmax(tf.cast(x, _exact_dtype(x))) for x in (first, second))
    return tf.reduce_sum((tf.exp(p) - tf.exp(q)) * (p - q), axis=1) / 2


def _exact_dtype(x: tf.Tensor) -> tf.DType:
    """Returns the dtype that sums over a vocabulary need: at least float32."""
    return tf.float64 if x.dtype == tf.float64 else tf.float32


@keras.saving.register_keras_serializable("t2t_keras")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """The mean of `token_losses` over real target tokens, for `Model.compile`.

    Keras's own reductions divide by the padded positions too, and its sparse cross
    entropy knows no label smoothing.

    Args:
        label_smoothing: Share of probability spread over the vocabulary. Default 0.1.

    Call arguments:
        y_true: `[batch, target]` integer tokens, 0 for padding.
        y_pred: `[batch, target, vocab_size]` logits.
        sample_weight: Optional weights of the sentences, `[batch]`, or of the tokens,
            `[batch, target]`. Scalars and axes of size 1 are broadcast.

    Returns:
        A scalar, in nats a token.

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
                f"label_smoothing lies in [0, 1). Received: {label_smoothing}"
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
        """Averages over the positions that are no padding."""
        y_true = tf.convert_to_tensor(y_true)
        real = tf.cast(tf.not_equal(y_true, PAD_ID), self.dtype)
        if sample_weight is not None:
            real *= _weight_of_each(tf.cast(sample_weight, self.dtype), like=y_true)
        return super().__call__(y_true, y_pred, sample_weight=real)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def _weight_of_each(weights: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Broadcasts weights to labels; those of shape `[batch]` along the tokens."""
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
