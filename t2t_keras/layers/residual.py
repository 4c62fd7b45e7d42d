"""Residual connection, dropout and layer normalization (section 3.1, 5.4)."""

from typing import Any

import keras
import tensorflow as tf

from t2t_keras.layers.dropout import Dropout
from t2t_keras.layers.layer_norm import LayerNorm
from t2t_keras.layers.shapes import check_shape, require_shape
from t2t_keras.layers.symbolic_calls import TracedOutputs


@keras.saving.register_keras_serializable("t2t_keras")
class Residual(TracedOutputs, keras.layers.Layer):
    """Joins a sub-layer's output to its input.

    Post-norm, the published form: LayerNorm(x + Dropout(Sublayer(x))).
    Pre-norm: x + Dropout(Sublayer(LayerNorm(x))); a stack of such layers ends with
    a normalization of its own.

    Use: `x = residual(x, sublayer(residual.sublayer_input(x)))`.

    Args:
        d_model: Size of the last axis.
        dropout: Share of the sub-layer's output that is dropped.
        pre_norm: Normalize the sub-layer's input, not the sum. Default False.
        norm_epsilon: Added to the variance. Default 1e-6.
        seed: Seed of the dropout. Default 0.

    Call arguments:
        x: `[..., d_model]` float, what the sub-layer saw before any normalization.
        y: What the sub-layer returned, of the shape of `x`: nothing is broadcast.
        training: Whether to drop.

    Returns:
        `[..., d_model]` in the compute dtype.

    Raises:
        ValueError: If the last axis of `x` is not `d_model`, or `y` has another shape.
    """

    def __init__(
        self,
        d_model: int,
        dropout: float,
        pre_norm: bool = False,
        norm_epsilon: float = 1e-6,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.d_model = d_model
        self.pre_norm = pre_norm
        self.norm_epsilon = norm_epsilon
        self.seed = seed
        self.dropout = Dropout(dropout, seed, dtype=self.dtype_policy, name="dropout")
        self.norm = LayerNorm(
            epsilon=norm_epsilon, dtype=self.dtype_policy, name="norm"
        )

    def build(self, input_shape: Any) -> None:
        """Creates the normalization's gain and bias."""
        check_shape(input_shape, (..., self.d_model), self, "x")
        self.norm.build((None, None, self.d_model))
        self.dropout.build((None, None, self.d_model))
        self.built = True

    def sublayer_input(self, x: tf.Tensor) -> tf.Tensor:
        """Returns what the sub-layer is to be fed: `x`, normalized if pre-norm."""
        x = require_shape(x, (..., self.d_model), self, "x")
        return self.norm(x) if self.pre_norm else x

    def call(
        self, x: tf.Tensor, y: tf.Tensor, training: bool | None = None
    ) -> tf.Tensor:
        """Adds the sub-layer's output to its input."""
        x = require_shape(x, (..., self.d_model), self, "x")
        y = require_shape(y, tuple(x.shape), self, "y")
        # Unlike x + y, a sum that broadcasts no size that only the graph knows.
        x = tf.add_n([x, self.dropout(y, training=training)])
        return x if self.pre_norm else self.norm(x)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the output, which is that of `x`."""
        check_shape(input_shape, (..., self.d_model), self, "x")
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "dropout": self.dropout.rate,
            "pre_norm": self.pre_norm,
            "norm_epsilon": self.norm_epsilon,
            "seed": self.seed,
        }
