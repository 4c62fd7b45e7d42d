"""The training objective and its metrics."""

import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.special_tokens import BOS_ID, PAD_ID
from t2t_keras.training.losses import divergence, token_losses
from t2t_keras.training.metrics import token_sums
from t2t_keras.transformer import Transformer

Batch = dict[str, tf.Tensor]


class Objective:
    """Label-smoothed cross entropy (section 5.4), optionally with R-Drop.

    R-Drop (Liang et al., 2021, eq. 4) predicts every sentence twice with different
    dropout masks, and adds `r_drop` times the symmetric KL divergence of the two
    predictions. Here the sum is halved, so that a batch has the same weight as without
    R-Drop. A step takes twice the computation.

    Args:
        label_smoothing: Probability spread over the vocabulary. Default 0.1.
        r_drop: Weight of the divergence, alpha in that paper, which uses 5 for
            translation. Default None: no R-Drop.

    Attributes:
        passes: Number of forward passes per sentence, 1 or 2.

    Raises:
        UserError: If an argument is out of range.
    """

    def __init__(
        self, label_smoothing: float = 0.1, r_drop: float | None = None
    ) -> None:
        if not 0 <= label_smoothing < 1:
            raise UserError(
                f"label_smoothing must be in [0, 1). Received: {label_smoothing}"
            )
        if r_drop is not None and not r_drop > 0:
            raise UserError(f"r_drop must be positive or None. Received: {r_drop}")
        self.label_smoothing = label_smoothing
        self.r_drop = r_drop
        self.passes = 2 if r_drop else 1

    def __call__(
        self, model: Transformer, batch: Batch, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the loss of a batch.

        Args:
            model: The model.
            batch: "source" and "target", each `[batch, length]` int32 ids, 0 for
                padding.
            training: Whether to apply dropout.

        Returns:
            The loss, summed over non-padding target tokens, and `token_sums`, which do
            not include the divergence.
        """
        source, target = batch["source"], batch["target"]
        shifted = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=BOS_ID)
        labels = tf.reshape(target, [-1])
        real = labels != PAD_ID
        if not (self.r_drop and training):
            states = self._states(model, source, shifted, training)
            smoothed, nll, correct = model.output_projection().fused_token_losses(
                labels, states, self.label_smoothing
            )
            total = tf.reduce_sum(tf.where(real, smoothed, 0.0))
            return total, token_sums(source, labels, smoothed, nll, correct)

        sources, starts = (tf.concat([x, x], axis=0) for x in (source, shifted))
        states = self._states(model, sources, starts, training)
        first, second = tf.split(model.output_projection().logits(states), 2)
        total, sums = 0.0, 0.0
        for logits in (first, second):
            smoothed, nll = token_losses(labels, logits, self.label_smoothing)
            correct = tf.argmax(logits, axis=1, output_type=labels.dtype) == labels
            total += tf.reduce_sum(tf.where(real, smoothed, 0.0)) / 2
            sums += token_sums(source, labels, smoothed, nll, correct) / 2
        apart = tf.where(real, divergence(first, second), 0.0)
        return total + self.r_drop / 2 * tf.reduce_sum(apart), sums

    def _states(
        self, model: Transformer, source: tf.Tensor, shifted: tf.Tensor, training: bool
    ) -> tf.Tensor:
        """Returns `[batch * target, d_model]`."""
        states = model.target_states(
            {"source": source, "target": shifted}, training=training
        )
        return tf.reshape(states, [-1, states.shape[-1]])
