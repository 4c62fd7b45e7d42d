"""Residual connection, dropout and layer normalization (sections 3.1 and 5.4)."""

from typing import Any

import keras
import tensorflow as tf

from t2t_keras.layers.dropout import Dropout
from t2t_keras.layers.layer_norm import LayerNorm
from t2t_keras.layers.shapes import check_shape, require_shape
from t2t_keras.layers.symbolic_calls import TracedOutputs


@keras.saving.register_keras_serializable("t2t_keras")
class Residual(TracedOutputs, keras.layers.Layer):
    """Residual connection around a sub-layer, with dropout and layer normalization.

    Post-norm, as in the paper: LayerNorm(x + Dropout(Sublayer(x))).
    Pre-norm: x + Dropout(Sublayer(LayerNorm(x))). A stack of pre-norm layers needs a
    layer normalization at its end.

    Usage: `x = residual(x, sublayer(residual.sublayer_input(x)))`.

    Args:
        d_model: Size of the last axis.
        dropout: Dropout rate of the sub-layer's output.
        pre_norm: Normalize the sub-layer's input rather than the sum. Default False.
        norm_epsilon: Epsilon added to the variance. Default 1e-6.
        seed: Random seed of dropout. Default 0.

    Call arguments:
        x: `[..., d_model]` float, the sub-layer's input before normalization.
        y: The sub-layer's output, with exactly the shape of `x` (no broadcasting).
        training: Whether to apply dropout.

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
        """Creates gamma and beta of the layer normalization."""
        check_shape(input_shape, (..., self.d_model), self, "x")
        self.norm.build((None, None, self.d_model))
        self.dropout.build((None, None, self.d_model))
        self.built = True

    def sublayer_input(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the sub-layer's input: `x`, normalized in case of pre-norm."""
        x = require_shape(x, (..., self.d_model), self, "x")
        return self.norm(x) if self.pre_norm else x

    def call(
        self, x: tf.Tensor, y: tf.Tensor, training: bool | None = None
    ) -> tf.Tensor:
        """Adds the sub-layer's output, after dropout, to its input."""
        x = require_shape(x, (..., self.d_model), self, "x")
        y = require_shape(y, tuple(x.shape), self, "y")
        # Unlike x + y, add_n does not broadcast sizes that are unknown until run time.
        x = tf.add_n([x, self.dropout(y, training=training)])
        return x if self.pre_norm else self.norm(x)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the output shape, which equals the shape of `x`."""
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
