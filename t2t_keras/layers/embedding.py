"""Token embedding that is shared with the pre-softmax projection (section 3.4)."""

from typing import Any

import keras
import tensorflow as tf

from t2t_keras.layers import initializers
from t2t_keras.layers.output_projection import OutputProjection
from t2t_keras.layers.shapes import require_shape


@keras.saving.register_keras_serializable("t2t_keras")
class SharedEmbedding(keras.layers.Layer):
    """Embedding matrix that also projects decoder states to logits.

    Rows are initialized from N(0, 1/d_model), and embeddings are scaled by
    sqrt(d_model). Both embeddings and logits therefore start with unit variance.

    Args:
        vocab_size: Number of tokens.
        d_model: Size of an embedding.
        seed: Random seed of the initializer. Default 0.

    Call arguments:
        ids: `[...]` integer token ids, 0 <= id < vocab_size.

    Returns:
        `[..., d_model]` in the compute dtype.
    """

    def __init__(
        self, vocab_size: int, d_model: int, seed: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.d_model = d_model
        self.seed = seed

    def build(self, input_shape: Any = None) -> None:
        """Creates the embedding matrix."""
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocab_size, self.d_model),
            initializer=initializers.embeddings_initializer(self.d_model, self.seed),
            # Cast after the lookup, which needs few rows, and whose gradient, a sum
            # over equal tokens, needs full precision.
            autocast=False,
        )
        self.built = True

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """Looks up the token embeddings and scales them by sqrt(d_model)."""
        rows = tf.gather(self.matrix(), ids)
        return tf.cast(rows, self.compute_dtype) * self.d_model**0.5

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the embeddings."""
        return (*input_shape, self.d_model)

    def logits(self, x: tf.Tensor) -> tf.Tensor:
        """Projects states to logits with the transposed embedding matrix.

        Args:
            x: `[batch, length, d_model]` float.

        Returns:
            `[batch, length, vocab_size]` in the compute dtype.

        Raises:
            ValueError: If the last axis of `x` is not `d_model`.
        """
        x = require_shape(x, (..., self.d_model), self, "x")
        return self.output_projection().logits(tf.cast(x, self.compute_dtype))

    def output_projection(self) -> OutputProjection:
        """Returns the projection with the transposed matrix, without a bias."""
        return OutputProjection(self.matrix())

    def matrix(self) -> tf.Tensor:
        """Returns the matrix, `[vocab_size, d_model]` in the dtype of the variable.

        Gather rows from this tensor, never from the variable: after a
        `ResourceGather`, TensorFlow copies the whole variable at every read.
        """
        return tf.convert_to_tensor(self.embeddings.value)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "vocab_size": self.vocab_size,
            "d_model": self.d_model,
            "seed": self.seed,
        }
