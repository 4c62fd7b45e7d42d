"""Projection of decoder states to logits, and a fused cross-entropy loss."""

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.layers.gradient_lifetime import free_gradient_with_graph
from t2t_keras.layers.linear import project


class OutputProjection(NamedTuple):
    """The linear map before the softmax: logits = states W^T + b (section 3.4).

    Training, search, scoring and export all compute logits with `logits`. The only
    other implementation is `fused_token_losses`, which fuses the projection with the
    loss and has a cheaper custom gradient.

    Attributes:
        matrix: W, `[vocab_size, d_model]` float in the dtype of the variable. With
            shared embeddings, it is `SharedEmbedding.matrix()`.
        bias: b, `[vocab_size]` float in the dtype of the variable. Default: no bias.
        fuse_bias: Whether TensorFlow may fuse the product and the bias in `logits` (see
            `linear.frozen_weights`). Default False.
    """

    matrix: tf.Tensor
    bias: tf.Tensor | None = None
    fuse_bias: bool = False

    def logits(self, states: tf.Tensor) -> tf.Tensor:
        """Computes the logits in the dtype of the states.

        Args:
            states: `[batch, ..., d_model]` float, the decoder's output.

        Returns:
            `[batch, ..., vocab_size]`.
        """
        bias = None if self.bias is None else tf.cast(self.bias, states.dtype)
        matrix = tf.cast(self.matrix, states.dtype)
        return project(states, matrix, bias, self.fuse_bias)

    def fused_token_losses(
        self, labels: tf.Tensor, states: tf.Tensor, label_smoothing: float
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Computes `token_losses` of `t2t_keras.training.losses` at lower cost.

        This form saves three of the four passes over `[n, vocab_size]` numbers. The
        label's logit and the mean logit are products of a state with one row and with
        the mean row of W. The incoming gradient of each token scales `[n, d_model]`
        numbers before or after the product with the softmax, not the softmax itself.

        In low precision, the smoothed target is subtracted from the softmax in float32,
        before rounding: for a confident model, the difference is smaller than the
        rounding error of the softmax. The label's entry is kept in float32.

        Args:
            labels: `[n]` integer target tokens.
            states: `[n, d_model]` float, the decoder's output.
            label_smoothing: Probability spread over the vocabulary.

        Returns:
            The smoothed losses and the negative log-likelihoods, each `[n]`, in nats,
            and whether the label was the most probable token, `[n]` bool.
        """
        exact = exact_dtype(states)
        is_rounded = states.dtype != exact
        labels = tf.cast(labels, tf.int32)
        # Gather rows before casting: the gradient sums over equal tokens, and a sum of
        # thousands of terms in low precision would lose most of them.
        rows = tf.cast(tf.gather(self.matrix, labels), exact)
        mean_row = tf.reduce_mean(tf.cast(self.matrix, exact), axis=0)
        parts = [states, tf.cast(self.matrix, states.dtype), rows]
        if self.bias is not None:
            label_bias = tf.cast(tf.gather(self.bias, labels), exact)
            parts += [tf.cast(self.bias, exact), label_bias]
        # Fails unless there are as many labels as states, so nothing is broadcast.
        position = tf.stack([tf.range(tf.shape(states)[0]), labels], axis=1)

        @tf.custom_gradient
        def log_partition(
            states: tf.Tensor, matrix: tf.Tensor, rows: tf.Tensor, *biases: tf.Tensor
        ) -> Any:
            """In low precision, the gradient is that of the complete smoothed loss."""
            logits = OutputProjection(matrix, *biases[:1]).logits(states)
            logits = tf.cast(logits, exact)
            probabilities = tf.nn.softmax(logits)
            # The highest probability is at least 1 / vocab_size, so its logarithm is
            # finite. Other probabilities can underflow to zero.
            highest = tf.reduce_max(probabilities, axis=1)
            log_sum = tf.reduce_max(logits, axis=1) - tf.math.log(highest)
            label_probability = tf.gather_nd(probabilities, position)
            correct = label_probability >= highest
            saved = probabilities
            if is_rounded:
                everywhere = label_smoothing / tf.cast(tf.shape(matrix)[0], exact)
                label_difference = label_probability - (1 - label_smoothing)
                label_difference -= everywhere
                saved = tf.tensor_scatter_nd_update(
                    tf.cast(probabilities - everywhere, states.dtype),
                    position,
                    tf.zeros_like(labels, states.dtype),
                )

            def gradient(d_log_sum: tf.Tensor, *_: tf.Tensor) -> tuple[Any, ...]:
                scale = d_log_sum[:, tf.newaxis]
                d_states = tf.cast(tf.matmul(saved, matrix), exact) * scale
                scaled = states * tf.cast(scale, states.dtype)
                d_matrix = tf.matmul(saved, scaled, transpose_a=True)
                d_biases: tuple[Any, ...] = ()
                if biases:
                    d_bias = tf.linalg.matvec(
                        tf.cast(saved, exact), d_log_sum, transpose_a=True
                    )
                    d_biases = (d_bias, None)
                if not is_rounded:
                    return d_states, d_matrix, None, *d_biases
                scale *= label_difference[:, tf.newaxis]
                d_states = tf.cast(d_states + scale * rows, states.dtype)
                d_rows = scale * tf.cast(states, exact)
                if biases:
                    d_biases = (d_biases[0], scale[:, 0])
                return d_states, d_matrix, d_rows, *d_biases

            return (log_sum, tf.gather_nd(logits, position), correct), gradient

        log_sum, label_logit, correct = log_partition(*parts)
        free_gradient_with_graph(log_sum)
        exact_states = tf.cast(states, exact)
        label = tf.reduce_sum(exact_states * rows, axis=1)
        if self.bias is not None:
            label += label_bias
        # Use the value from the rounded logits, as in log_sum. Otherwise, a likelihood
        # could exceed 1.
        label += tf.stop_gradient(label_logit - label)
        mean = tf.linalg.matvec(exact_states, mean_row)
        if self.bias is not None:
            mean += tf.reduce_mean(tf.cast(self.bias, exact))
        smoothing = label_smoothing * (label - mean)
        if not is_rounded:
            nll = log_sum - label
            return nll + smoothing, nll, correct
        nll = log_sum - tf.stop_gradient(label)
        smoothed = nll + tf.stop_gradient(smoothing)
        # The value of `nll` with the gradient of the loss without smoothing.
        unsmoothed = smoothed - smoothing
        nll = tf.stop_gradient(nll) + (unsmoothed - tf.stop_gradient(unsmoothed))
        return smoothed, nll, correct


def exact_dtype(x: tf.Tensor) -> tf.DType:
    """Returns the dtype for sums over the vocabulary: at least float32."""
    return tf.float64 if x.dtype == tf.float64 else tf.float32
