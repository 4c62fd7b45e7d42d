"""Linear projection."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from t2t_keras.layers import initializers
from t2t_keras.layers.shapes import check_shape, require_shape, reshape_last

_FROZEN = contextvars.ContextVar("_FROZEN", default=False)


@contextlib.contextmanager
def frozen_weights(frozen: bool = True) -> Iterator[None]:
    """Layers that are made inside join a product and its bias into one operation.

    For models whose weights never change, in a process in which oneDNN assumes so
    (`t2t_keras.runtime`): elsewhere the two are faster apart, and a process that makes
    this assumption and changes the weights would go on with the old ones. A model keeps
    its form wherever it is traced, and does not save it.

    Args:
        frozen: Whether to join them. Default True.
    """
    token = _FROZEN.set(frozen)
    try:
        yield
    finally:
        _FROZEN.reset(token)


def project(
    x: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor | None = None,
    joined: bool = False,
) -> Any:
    """Computes x W^T + b at every position.

    Args:
        x: `[batch, ..., inputs]` float.
        kernel: `[units, inputs]`, W, of the dtype of `x`.
        bias: `[units]`, b, likewise. Default none.
        joined: Whether the bias is added right behind the product, as of
            `frozen_weights`. Default False.

    Returns:
        `[batch, ..., units]`.
    """
    units, inputs = kernel.shape
    if len(x.shape) == 2 and bias is None:
        return tf.matmul(x, kernel, transpose_b=True)
    # A product of two matrices is one call of the library that computes it; one of a
    # batch of matrices would be a call for each.
    y = tf.matmul(tf.reshape(x, [-1, inputs]), kernel, transpose_b=True)
    # TensorFlow makes one operation of a product and a bias right behind it. oneDNN
    # arranges W anew at each call of that, which in bfloat16 takes as long as the
    # product, unless it assumes that W never changes: else a reshape keeps them apart.
    if bias is not None and joined:
        y = tf.nn.bias_add(y, bias)
    y = reshape_last(y, x, len(x.shape) - 1, [units])
    return y if bias is None or joined else tf.nn.bias_add(y, bias)


@keras.saving.register_keras_serializable("t2t_keras")
class Linear(keras.layers.Layer):
    """W x + b, where W holds a row for each output: PyTorch's layout, not Keras's.

    In that layout oneDNN computes the products of decoding, of few rows, 1.2 to 1.8
    times as fast on a CPU, since what is multiplied with what lies side by side in
    memory, and those of training as fast. Without oneDNN, which is not everywhere the
    default, those of few rows are slower (docs/performance.md).

    Args:
        units: Size of the output.
        use_bias: Whether b is added, which begins as 0. Default True.
        seed: Of the initial W (Glorot and Bengio, 2010, uniform). Default 0.

    Call arguments:
        x: `[batch, ..., inputs]` float.

    Returns:
        `[batch, ..., units]` in the compute dtype.

    Raises:
        ValueError: If the last axis of `x` has another size than in the first call, or
            its size is unknown in the first call.
    """

    def __init__(
        self, units: int, use_bias: bool = True, seed: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.use_bias = use_bias
        self.seed = seed
        self._joins_bias = _FROZEN.get()

    def build(self, input_shape: Any) -> None:
        """Creates W, `[units, inputs]`, and b, `[units]`."""
        if input_shape[-1] is None:
            raise ValueError(
                f"Linear {self.name!r} must know the size of the last axis of its "
                f"input when it is built. Received shape: {tuple(input_shape)}"
            )
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.units, input_shape[-1]),
            initializer=initializers.of_matrix(self.seed),
        )
        self.bias = (
            self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
            if self.use_bias
            else None
        )
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Projects each position."""
        x = require_shape(x, (..., self.kernel.shape[1]), self, "x")
        return project(x, self.kernel, self.bias, self._joins_bias)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the output: `units` on the last axis."""
        if self.built:
            check_shape(input_shape, (..., self.kernel.shape[1]), self, "x")
        return (*input_shape[:-1], self.units)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "seed": self.seed,
        }
