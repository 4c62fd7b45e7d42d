"""Layer normalization (section 3.1)."""

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("t2t_keras")
class LayerNorm(keras.layers.LayerNormalization):
    """gamma (x - mean) / sqrt(variance + epsilon) + beta (Ba et al., 2016).

    Keras's layer, over the last axis, with a gradient of its own: that which follows
    from Keras's operations one by one passes over tensors of the size of x twice as
    often. Sums are of float32 at least.

    Call arguments:
        inputs: `[..., d_model]` float.

    Returns:
        `[..., d_model]` in the compute dtype.
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalizes each position."""
        inputs = tf.convert_to_tensor(inputs)
        exact = tf.float64 if inputs.dtype == tf.float64 else tf.float32
        x, gamma, beta = (tf.cast(t, exact) for t in (inputs, self.gamma, self.beta))
        return tf.cast(_normalize(x, gamma, beta, self.epsilon), self.compute_dtype)


def _normalize(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float
) -> tf.Tensor:
    @tf.custom_gradient
    def normalized(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
        centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
        scale = tf.math.rsqrt(variance + epsilon)
        unit = centred * scale

        def gradient(d_y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            positions = list(range(d_y.shape.rank - 1))
            d_gamma = tf.reduce_sum(d_y * unit, axis=positions)
            d_unit = d_y * gamma
            # What moves all of x alike, or stretches it, changes nothing.
            moved = tf.reduce_mean(d_unit, axis=-1, keepdims=True)
            stretched = tf.reduce_mean(d_unit * unit, axis=-1, keepdims=True)
            d_x = scale * (d_unit - moved - unit * stretched)
            return d_x, d_gamma, tf.reduce_sum(d_y, axis=positions)

        return unit * gamma + beta, gradient

    return normalized(x, gamma, beta)
