"""Layer normalization (section 3.1)."""

from typing import Any, NoReturn

import keras
import tensorflow as tf

from t2t_keras.layers.shapes import check_shape, require_shape


@keras.saving.register_keras_serializable("t2t_keras")
class LayerNorm(keras.layers.LayerNormalization):
    """gamma (x - mean) / sqrt(variance + epsilon) + beta (Ba et al., 2016).

    Keras's layer with shape checks and, for normalization over the last axis, less
    memory traffic. Sums are computed in at least float32.

    Args: See `keras.layers.LayerNormalization`. Other axes than the last, and
        `rms_scaling`, use the computation of that class.

    Call arguments:
        inputs: Float, `[..., d_model]` by default.

    Returns:
        A tensor with the shape of `inputs`, in the compute dtype.

    Raises:
        ValueError: If `inputs` lacks one of the axes, or the size of an axis differs
            from the first call.
    """

    axis: Any

    def build(self, input_shape: Any) -> None:
        """Creates gamma and beta, unless they are disabled."""
        rank = len(input_shape)
        self.axis = sorted({*self.axis} if isinstance(self.axis, list) else [self.axis])
        if not {*self.axis} <= {*range(-rank, rank)}:
            self._reject(input_shape)
        if self.axis[0] < 0 <= self.axis[-1]:  # May be the same axis twice.
            self.axis = sorted({axis % rank for axis in self.axis})
        self.sizes = {axis: input_shape[axis] for axis in self.axis}
        if None in self.sizes.values():
            self._reject(input_shape)
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalizes the inputs over the axes."""
        inputs = tf.convert_to_tensor(inputs)
        expected = self._expected(inputs.shape)
        inputs = require_shape(inputs, expected, self, "inputs")
        rank = len(expected)
        if self.rms_scaling or [axis % rank for axis in self.sizes] != [rank - 1]:
            return super().call(inputs)
        exact = tf.float64 if inputs.dtype == tf.float64 else tf.float32
        gamma = self.gamma if self.scale else tf.ones(inputs.shape[-1:], exact)
        beta = self.beta if self.center else tf.zeros(inputs.shape[-1:], exact)
        x, gamma, beta = (tf.cast(t, exact) for t in (inputs, gamma, beta))
        centered = x - tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
        unit = centered * tf.math.rsqrt(variance + self.epsilon)
        return tf.cast(unit * gamma + beta, self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the output shape, which equals the input shape."""
        if self.built:
            check_shape(input_shape, self._expected(input_shape), self, "inputs")
        return super().compute_output_shape(input_shape)

    def _expected(self, shape: Any) -> tuple[int | None, ...]:
        """Returns the expected shape of an input of the same rank as `shape`."""
        rank = len(shape)
        expected: list[int | None] = [None] * rank
        for axis, size in self.sizes.items():
            if axis not in range(-rank, rank):
                self._reject(shape)
            expected[axis] = size
        return tuple(expected)

    def _reject(self, shape: Any) -> NoReturn:
        raise ValueError(
            f"LayerNorm {self.name!r}: the axes {self.axis} of the input must exist "
            f"and have known sizes. Received shape: {tuple(shape)}"
        )
