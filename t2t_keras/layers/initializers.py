"""Weight initializers."""

import contextlib
import contextvars
from collections.abc import Iterator

import keras

_TO_BE_LOADED = contextvars.ContextVar("_TO_BE_LOADED", default=False)


@contextlib.contextmanager
def weights_to_be_loaded() -> Iterator[None]:
    """Context in which layers are built with zeros instead of random weights.

    For models whose weights are all loaded right after: drawing millions of random
    numbers takes as long as reading the weights from a file.
    """
    token = _TO_BE_LOADED.set(True)
    try:
        yield
    finally:
        _TO_BE_LOADED.reset(token)


def of_matrix(seed: int) -> keras.initializers.Initializer:
    """Returns the initializer of a projection (Glorot and Bengio, 2010, uniform).

    Args:
        seed: Random seed.
    """
    return _drawn(keras.initializers.GlorotUniform(seed))


def of_rows(d_model: int, seed: int) -> keras.initializers.Initializer:
    """Returns the initializer of an embedding table: normal, variance 1 / d_model.

    Args:
        d_model: Size of an embedding.
        seed: Random seed.
    """
    return _drawn(keras.initializers.RandomNormal(stddev=d_model**-0.5, seed=seed))


def _drawn(
    initializer: keras.initializers.Initializer,
) -> keras.initializers.Initializer:
    return keras.initializers.Zeros() if _TO_BE_LOADED.get() else initializer
