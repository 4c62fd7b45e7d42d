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
    """Context in which layers are created with fused matrix products and biases.

    Use it for models whose weights never change, in a process where oneDNN assumes
    frozen weights (`t2t_keras.runtime`). In other processes, separate operations are
    faster. If weights change in a process with this assumption, oneDNN continues to
    use the old ones. The choice is made when a layer is created, applies to all of its
    graphs, and is not saved with the model.

    Args:
        frozen: Whether to fuse them. Default True.
    """
    token = _FROZEN.set(frozen)
    try:
        yield
    finally:
        _FROZEN.reset(token)


def fuses_bias() -> bool:
    """Returns whether layers that are created now fuse products and biases."""
    return _FROZEN.get()


def project(
    x: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor | None = None,
    fuse_bias: bool = False,
) -> Any:
    """Computes x W^T + b at every position.

    Args:
        x: `[batch, ..., inputs]` float.
        kernel: `[units, inputs]`, W, in the dtype of `x`.
        bias: `[units]`, b, in the dtype of `x`. Default: no bias.
        fuse_bias: Whether TensorFlow may fuse the product and the bias (see
            `frozen_weights`). Default False.

    Returns:
        `[batch, ..., units]`.
    """
    units, inputs = kernel.shape
    if len(x.shape) == 2 and bias is None:
        return tf.matmul(x, kernel, transpose_b=True)
    # Reshape to a product of two matrices, which is a single library call. A batched
    # product would be one call per matrix.
    y = tf.matmul(tf.reshape(x, [-1, inputs]), kernel, transpose_b=True)
    # TensorFlow fuses a product with a bias that directly follows it. oneDNN reorders W
    # at each call of the fused operation, unless it assumes that W is frozen; in
    # bfloat16, that takes as long as the product. A reshape in between prevents the
    # fusion.
    if bias is not None and fuse_bias:
        y = tf.nn.bias_add(y, bias)
    y = reshape_last(y, x, len(x.shape) - 1, [units])
    return y if bias is None or fuse_bias else tf.nn.bias_add(y, bias)


@keras.saving.register_keras_serializable("t2t_keras")
class Linear(keras.layers.Layer):
    """W x + b, with one row of W per output: the layout of PyTorch, not of Keras.

    With oneDNN on a CPU, this layout makes the small products of decoding 1.2 to 1.8
    times as fast, because the numbers to multiply are adjacent in memory. The products
    of training are as fast in either layout. Without oneDNN, which is not the default
    on all platforms, small products are slower in this layout (docs/performance.md).

    Args:
        units: Size of the output.
        use_bias: Whether to add b, which is initialized to 0. Default True.
        seed: Random seed of the initializer of W (Glorot and Bengio, 2010, uniform).
            Default 0.

    Call arguments:
        x: `[batch, ..., inputs]` float.

    Returns:
        `[batch, ..., units]` in the compute dtype.

    Raises:
        ValueError: If the size of the last axis of `x` is unknown in the first call, or
            changes afterwards.
    """

    def __init__(
        self, units: int, use_bias: bool = True, seed: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.use_bias = use_bias
        self.seed = seed
        self._fuse_bias = fuses_bias()

    def build(self, input_shape: Any) -> None:
        """Creates W, `[units, inputs]`, and b, `[units]`."""
        if input_shape[-1] is None:
            raise ValueError(
                f"Linear {self.name!r}: the last axis of the input must have a known "
                f"size. Received shape: {tuple(input_shape)}"
            )
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.units, input_shape[-1]),
            initializer=initializers.kernel_initializer(self.seed),
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
        return project(x, self.kernel, self.bias, self._fuse_bias)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the output shape, whose last axis has size `units`."""
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
