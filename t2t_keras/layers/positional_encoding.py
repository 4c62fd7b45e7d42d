"""Positional encodings (section 3.5)."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_keras.layers import initializers
from t2t_keras.layers.shapes import check_shape, require_shape, size_of


def sinusoidal_encoding(
    positions: tf.Tensor, d_model: int, dtype: Any = "float32"
) -> tf.Tensor:
    """Computes the paper's positional encoding, with sine and cosine interleaved.

    PE(pos, 2i) = sin(pos / 10000^(2i/d_model)) and
    PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model)).

    Args:
        positions: `[length]` integer positions. The first token has position 0.
        d_model: Size of the encoding. If it is odd, the last cosine is left out.
        dtype: "float32" (the default) or "float64". The error of float32 grows with
            the position: it is 2e-4 at position 4,096.

    Returns:
        `[length, d_model]` in the requested dtype.
    """
    even = tf.range(0, d_model, 2, dtype=dtype)
    frequency = tf.pow(tf.constant(10000, dtype), -even / d_model)
    angle = tf.cast(positions, dtype)[:, tf.newaxis] * frequency
    pairs = tf.stack([tf.sin(angle), tf.cos(angle)], axis=-1)
    # [length, d_model / 2, 2] -> [length, d_model]
    return tf.reshape(pairs, [tf.shape(angle)[0], -1])[:, :d_model]


class Wave(NamedTuple):
    """A dimension of a sinusoidal encoding: sin or cos of pos / 10000^exponent.

    Attributes:
        function: "sin" or "cos".
        numerator: Numerator of the exponent.
        denominator: Its denominator.
    """

    function: str
    numerator: int
    denominator: int


class Position(keras.layers.Layer, ABC):
    """Base class of positional encodings, which are added to the embeddings.

    Args:
        d_model: Size of the last axis.
        max_length: Number of positions of a learned encoding. Default 1,024.
        seed: Random seed of the initializer. Default 0.

    Call arguments:
        x: `[batch, length, d_model]` float, scaled embeddings.
        positions: `[length]` integer. Default: 0 to length - 1.

    Returns:
        `x` plus the encoding of the positions, in the compute dtype.

    Raises:
        ValueError: If `x` or `positions` has the wrong shape.
    """

    def __init__(
        self, d_model: int, max_length: int = 1024, seed: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.d_model = d_model
        self.max_length = max_length
        self.seed = seed

    @abstractmethod
    def encoding(self, positions: tf.Tensor) -> tf.Tensor:
        """Returns the encoding of positions, `[length, d_model]` in at least float32.

        Args:
            positions: `[length]` integer.
        """

    def call(self, x: tf.Tensor, positions: tf.Tensor | None = None) -> tf.Tensor:
        """Adds the encoding of the positions to the embeddings."""
        x = require_shape(x, (None, None, self.d_model), self, "x")
        length = size_of(x, 1)
        if positions is None:
            positions = tf.range(length)
        else:
            # Without this check, a single position would broadcast to the length.
            positions = require_shape(positions, (length,), self, "positions")
        return x + tf.cast(self.encoding(positions), x.dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the output shape, which equals the shape of `x`."""
        check_shape(input_shape, (None, None, self.d_model), self, "x")
        return tuple(input_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "max_length": self.max_length,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable("t2t_keras")
class SinusoidalPosition(Position):
    """Adds the sinusoidal encoding (section 3.5), which has no maximum length.

    See `Position` for the arguments; `max_length` and `seed` have no effect.
    """

    def encoding(self, positions: tf.Tensor) -> tf.Tensor:
        """Computes the sines and cosines of the positions."""
        return sinusoidal_encoding(positions, self.d_model, self._exact_dtype())

    def waves(self) -> list[Wave | None]:
        """Returns the formula of each of the `d_model` dimensions, None if it is 0."""
        return [
            Wave("cos" if i % 2 else "sin", i - i % 2, self.d_model)
            for i in range(self.d_model)
        ]

    def _exact_dtype(self) -> str:
        return "float64" if self.compute_dtype == "float64" else "float32"


@keras.saving.register_keras_serializable("t2t_keras")
class ConcatenatedSinusoidalPosition(SinusoidalPosition):
    """Adds the paper's sines, and then its cosines: section 3.5 in another order.

    The encoding of Marian models in Hugging Face's transformers. See `Position` for the
    arguments; `max_length` and `seed` have no effect.
    """

    def encoding(self, positions: tf.Tensor) -> tf.Tensor:
        """Computes the sines and the cosines."""
        dtype = self._exact_dtype()
        frequencies = [
            10000 ** -(wave.numerator / wave.denominator)
            for wave in self.waves()
            if wave is not None and wave.function == "sin"
        ]
        angle = tf.cast(positions, dtype)[:, tf.newaxis]
        angle *= tf.constant(frequencies, dtype)
        both = tf.concat([tf.sin(angle), tf.cos(angle)], axis=1)[:, : self.d_model]
        # An odd d_model lacks the last cosine, or has a dimension too many.
        missing = max(0, self.d_model - 2 * len(frequencies))
        return tf.pad(both, [[0, 0], [0, missing]])

    def waves(self) -> list[Wave | None]:
        """Returns the formula of each dimension: sin of 10000^(-2i/d_model) first."""
        half = -(-self.d_model // 2)
        return [
            Wave("sin", 2 * i, self.d_model)
            if i < half
            else Wave("cos", 2 * (i - half), self.d_model)
            for i in range(self.d_model)
        ]


@keras.saving.register_keras_serializable("t2t_keras")
class MarianSinusoidalPosition(ConcatenatedSinusoidalPosition):
    """Adds the sinusoidal encoding of Marian, fairseq and tensor2tensor.

    Sines of pos / 10000^(i / (d_model / 2 - 1)), then the cosines: the wavelengths form
    a geometric progression from 2 pi to exactly 10000 * 2 pi. The last dimension of an
    odd d_model is 0. See `Position` for the arguments; `max_length` and `seed` have no
    effect.
    """

    def waves(self) -> list[Wave | None]:
        """Returns the formula of each of the `d_model` dimensions, None if it is 0."""
        half = self.d_model // 2
        waves: list[Wave | None] = [
            Wave(function, i, max(half - 1, 1))
            for function in ("sin", "cos")
            for i in range(half)
        ]
        return waves + [None] * (self.d_model - 2 * half)


@keras.saving.register_keras_serializable("t2t_keras")
class LearnedPosition(Position):
    """Adds a learned vector for each position (Table 3, row E).

    See `Position` for the arguments. Positions of `max_length` and above share the last
    vector, so inputs that are too long can still be decoded.
    """

    def build(self, input_shape: Any) -> None:
        """Creates the table with one vector per position."""
        self.table = self.add_weight(
            name="table",
            shape=(self.max_length, self.d_model),
            initializer=initializers.embeddings_initializer(self.d_model, self.seed),
            autocast=False,
        )
        self.built = True

    def encoding(self, positions: tf.Tensor) -> tf.Tensor:
        """Looks up the vectors of the positions."""
        return tf.gather(self.table.value, tf.minimum(positions, self.max_length - 1))


POSITIONAL_ENCODINGS: dict[str, type[Position]] = {
    "sinusoidal": SinusoidalPosition,
    "sinusoidal_concat": ConcatenatedSinusoidalPosition,
    "sinusoidal_marian": MarianSinusoidalPosition,
    "learned": LearnedPosition,
}
"""Layer classes by value of `TransformerConfig.position`."""
