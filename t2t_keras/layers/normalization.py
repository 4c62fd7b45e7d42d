"""Layer normalization (section 3.1)."""

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("t2t_keras")
class LayerNorm(keras.layers.LayerNormalization):
    """gamma (x - mean) / sqrt(variance + epsilon) + beta (Ba et al., 2016).

    Keras's layer, over the last axis, with a gradient of its own: that which follows
    from Keras's operations one by one passes over tensors of the size of x twice as
    often. Sums are of float32 at least, but where a GPU is set to round what goes into
    products to TF32: those of the gradient are products.

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
            # Sums are products with a vector, which pass over memory once and write
            # nothing: [..., d_model] -> [positions, d_model]
            size = x.shape[-1]
            rows = tf.reshape(d_y, [-1, size])
            unit_rows = tf.reshape(d_y * unit, [-1, size])
            mean_of = tf.reshape(gamma / size, [size, 1])
            sum_of = tf.ones([1, tf.shape(rows)[0]], d_y.dtype)
            # What moves all of x alike, or stretches it, changes nothing.
            moved = tf.reshape(tf.matmul(rows, mean_of), tf.shape(scale))
            stretched = tf.reshape(tf.matmul(unit_rows, mean_of), tf.shape(scale))
            d_x = scale * (d_y * gamma - moved - unit * stretched)
            d_gamma, d_beta = tf.matmul(sum_of, unit_rows), tf.matmul(sum_of, rows)
            return d_x, d_gamma[0], d_beta[0]

        return unit * gamma + beta, gradient

    return normalized(x, gamma, beta)
