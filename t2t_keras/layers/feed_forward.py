"""Position-wise feed-forward network (section 3.3)."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from t2t_keras.layers.dropout import Dropout
from t2t_keras.layers.gradient_lifetime import free_gradient_with_graph
from t2t_keras.layers.linear import Linear
from t2t_keras.layers.seeds import child_seed
from t2t_keras.layers.shapes import check_shape, require_shape


def _silu(x: tf.Tensor, beta: float = 1.0) -> tf.Tensor:
    y = tf.nn.silu(x, beta)
    free_gradient_with_graph(y)
    return y


_FUNCTIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "relu": tf.nn.relu,
    "gelu": tf.nn.gelu,
    "quick_gelu": functools.partial(_silu, beta=1.702),
    "swish": _silu,
}


@keras.saving.register_keras_serializable("t2t_keras")
class FeedForward(keras.layers.Layer):
    """FFN(x) = max(0, x W1 + b1) W2 + b2, the same at every position (eq. 2).

    Instead of ReLU, max(0, x), the activation can be GELU (Hendrycks and Gimpel, 2016),
    computed exactly, or Swish, x sigmoid(x) (Ramachandran et al., 2017), also called
    SiLU; or x sigmoid(1.702 x), the approximation of GELU in that paper, which Marian
    calls gelu and Hugging Face quick_gelu.

    Args:
        d_model: Size of input and output.
        d_ff: Size of the inner layer.
        relu_dropout: Dropout rate after the activation. Default 0, as in the paper.
        seed: Random seed of initializers and dropout. Default 0.
        activation: "relu" (the default), "gelu", "quick_gelu" or "swish".

    Call arguments:
        x: `[batch, length, d_model]` float.
        training: Whether to apply dropout.

    Returns:
        `[batch, length, d_model]` in the compute dtype.

    Raises:
        ValueError: If the last axis of `x` is not `d_model`.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        relu_dropout: float = 0.0,
        seed: int = 0,
        activation: str = "relu",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.d_model = d_model
        self.d_ff = d_ff
        self.relu_dropout = relu_dropout
        self.seed = seed
        self.activation = activation
        policy = self.dtype_policy
        self.inner, self.outer = (
            Linear(units, seed=child_seed(seed, name), dtype=policy, name=name)
            for name, units in (("inner", d_ff), ("outer", d_model))
        )
        self.dropout = Dropout(relu_dropout, seed, dtype=policy, name="dropout")

    def build(self, input_shape: Any) -> None:
        """Creates the kernels and biases of both projections."""
        check_shape(input_shape, (..., self.d_model), self, "x")
        self.inner.build((None, None, self.d_model))
        self.outer.build((None, None, self.d_ff))
        self.dropout.build((None, None, self.d_ff))
        self.built = True

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Applies the network to each position."""
        x = require_shape(x, (..., self.d_model), self, "x")
        inner = _FUNCTIONS[self.activation](self.inner(x))
        return self.outer(self.dropout(inner, training=training))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the output shape, which equals the input shape."""
        check_shape(input_shape, (..., self.d_model), self, "x")
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "relu_dropout": self.relu_dropout,
            "seed": self.seed,
            "activation": self.activation,
        }
