"""Positional encodings (section 3.5)."""

from typing import Any

import keras
import tensorflow as tf


def sinusoidal_encoding(positions: tf.Tensor, d_model: int) -> tf.Tensor:
    """The paper's encoding, sine and cosine interleaved.

    PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) the cosine of the same.

    Args:
        positions: `[length]` integer positions, the first token's being 0.
        d_model: Size of the encoding; an odd one lacks its last cosine.

    Returns:
        `[length, d_model]` float32.
    """
    even = tf.range(0, d_model, 2, dtype=tf.float32)
    frequency = tf.pow(10000.0, -even / d_model)
    angle = tf.cast(positions, tf.float32)[:, tf.newaxis] * frequency
    pairs = tf.stack([tf.sin(angle), tf.cos(angle)], axis=-1)
    # [length, d_model / 2, 2] -> [length, d_model]
    return tf.reshape(pairs, [tf.shape(angle)[0], -1])[:, :d_model]


@keras.saving.register_keras_serializable("t2t_keras")
class SinusoidalPosition(keras.layers.Layer):
    """Adds the sinusoidal encoding; works at any length.

    Args:
        d_model: Size of the last axis.
        max_length: Taken for symmetry with `LearnedPosition`; sets no limit.
        seed: Likewise unused.

    Call arguments:
        x: `[batch, length, d_model]` float, scaled embeddings.
        positions: `[length]` integer. Default 0 .. length - 1.

    Returns:
        `x` plus the encoding of the positions, in the compute dtype.
    """

    def __init__(
        self, d_model: int, max_length: int = 1024, seed: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.d_model = d_model
        self.max_length = max_length
        self.seed = seed

    def call(self, x: tf.Tensor, positions: tf.Tensor | None = None) -> tf.Tensor:
        """Adds the encoding."""
        if positions is None:
            positions = tf.range(tf.shape(x)[1])
        return x + tf.cast(sinusoidal_encoding(positions, self.d_model), x.dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "max_length": self.max_length,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable("t2t_keras")
class LearnedPosition(keras.layers.Layer):
    """Adds a learned vector for each position (Table 3, row E).

    Args:
        d_model: Size of the last axis.
        max_length: Number of positions that have a vector; later ones share the
            last, so that an over-long input still decodes.
        seed: Seed of the initializer. Default 0.

    Call arguments:
        x: `[batch, length, d_model]` float, scaled embeddings.
        positions: `[length]` integer. Default 0 .. length - 1.

    Returns:
        `x` plus the vectors of the positions, in the compute dtype.
    """

    def __init__(
        self, d_model: int, max_length: int = 1024, seed: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.d_model = d_model
        self.max_length = max_length
        self.seed = seed

    def build(self, input_shape: Any) -> None:
        """Creates the table of vectors."""
        self.table = self.add_weight(
            name="table",
            shape=(self.max_length, self.d_model),
            initializer=keras.initializers.RandomNormal(
                stddev=self.d_model**-0.5, seed=self.seed
            ),
            autocast=False,
        )
        self.built = True

    def call(self, x: tf.Tensor, positions: tf.Tensor | None = None) -> tf.Tensor:
        """Adds the vectors."""
        if positions is None:
            positions = tf.range(tf.shape(x)[1])
        rows = tf.gather(self.table.value, tf.minimum(positions, self.max_length - 1))
        return x + tf.cast(rows, x.dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "max_length": self.max_length,
            "seed": self.seed,
        }


POSITIONS: dict[str, type[keras.layers.Layer]] = {
    "sinusoidal": SinusoidalPosition,
    "learned": LearnedPosition,
}
"""The layer behind each value of `Transformer(position=...)`."""
