"""Weights of the projection to logits other than the target embeddings."""

from typing import Any

import keras
import tensorflow as tf

from t2t_keras.layers import initializers
from t2t_keras.layers.linear import fuses_bias
from t2t_keras.layers.output_projection import OutputProjection
from t2t_keras.layers.shapes import check_shape, require_shape


@keras.saving.register_keras_serializable("t2t_keras")
class OutputWeights(keras.layers.Layer):
    """Weights of the projection to logits: a matrix, a bias, or both.

    The paper's model needs no such weights: it uses the matrix of the target embeddings
    (section 3.4) and no bias. Marian models have a bias, and some have a separate
    matrix.

    Args:
        vocab_size: Number of tokens.
        d_model: Size of a state.
        use_matrix: Whether there is a matrix, initialized from N(0, 1/d_model), so that
            logits start with unit variance. Default True.
        use_bias: Whether there is a bias, initialized to zeros. Default True.
        seed: Random seed of the initializer. Default 0.

    Call arguments:
        x: `[batch, length, d_model]` float, states of the decoder.
        tied_matrix: `[vocab_size, d_model]` float, the matrix to use if the layer has
            none. Default None.

    Returns:
        Logits, `[batch, length, vocab_size]` in the compute dtype.

    Raises:
        ValueError: If the last axis of `x` is not `d_model`, or there is not exactly
            one matrix.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        use_matrix: bool = True,
        use_bias: bool = True,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.d_model = d_model
        self.use_matrix = use_matrix
        self.use_bias = use_bias
        self.seed = seed
        self._fuse_bias = fuses_bias()

    def build(self, input_shape: Any = None) -> None:
        """Creates the weights."""
        # Cast where they are used: losses gather rows of them in full precision.
        self.kernel = (
            self.add_weight(
                name="kernel",
                shape=(self.vocab_size, self.d_model),
                initializer=initializers.embeddings_initializer(
                    self.d_model, self.seed
                ),
                autocast=False,
            )
            if self.use_matrix
            else None
        )
        self.bias = (
            self.add_weight(
                name="bias",
                shape=(self.vocab_size,),
                initializer="zeros",
                autocast=False,
            )
            if self.use_bias
            else None
        )
        self.built = True

    def output_projection(
        self, tied_matrix: tf.Tensor | None = None
    ) -> OutputProjection:
        """Returns the projection with these weights.

        Args:
            tied_matrix: The same as in `call`.

        Raises:
            ValueError: If there is not exactly one matrix.
        """
        if (tied_matrix is None) != (self.kernel is not None):
            raise ValueError(
                f"OutputWeights {self.name!r}: tied_matrix must be given if, and only "
                f"if, use_matrix is False. Received: use_matrix={self.use_matrix}, "
                "tied_matrix="
                f"{'None' if tied_matrix is None else tied_matrix.shape}"
            )
        return OutputProjection(
            _tensor(self.kernel) if tied_matrix is None else tied_matrix,
            None if self.bias is None else _tensor(self.bias),
            self._fuse_bias,
        )

    def call(self, x: tf.Tensor, tied_matrix: tf.Tensor | None = None) -> tf.Tensor:
        """Computes the logits."""
        x = require_shape(x, (..., self.d_model), self, "x")
        return self.output_projection(tied_matrix).logits(x)

    def compute_output_shape(self, input_shape: Any, *_: Any, **__: Any) -> Any:
        """Returns the shape of the logits."""
        check_shape(input_shape, (..., self.d_model), self, "x")
        return (*input_shape[:-1], self.vocab_size)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "d_model": self.d_model,
            "use_matrix": self.use_matrix,
            "use_bias": self.use_bias,
            "seed": self.seed,
        }


def _tensor(variable: keras.Variable) -> tf.Tensor:
    """Returns the value as a tensor (see `SharedEmbedding.matrix` for the reason)."""
    return tf.convert_to_tensor(variable.value)
