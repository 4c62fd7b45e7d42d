"""What weights begin as."""

import contextlib
import contextvars
from collections.abc import Iterator

import keras

_TO_BE_LOADED = contextvars.ContextVar("_TO_BE_LOADED", default=False)


@contextlib.contextmanager
def weights_to_be_loaded() -> Iterator[None]:
    """Layers that are built inside begin with zeros, whatever their seeds.

    For models that are given all their weights at once: drawing millions of numbers to
    overwrite them takes as long as reading them from a file.
    """
    token = _TO_BE_LOADED.set(True)
    try:
        yield
    finally:
        _TO_BE_LOADED.reset(token)


def of_matrix(seed: int) -> keras.initializers.Initializer:
    """Returns the initializer of a projection (Glorot and Bengio, 2010, uniform).

    Args:
        seed: What it draws by.
    """
    return _drawn(keras.initializers.GlorotUniform(seed))


def of_rows(d_model: int, seed: int) -> keras.initializers.Initializer:
    """Returns that of a table of vectors: normal, of variance 1 / d_model.

    Args:
        d_model: Size of a vector.
        seed: What it draws by.
    """
    return _drawn(keras.initializers.RandomNormal(stddev=d_model**-0.5, seed=seed))


def _drawn(
    initializer: keras.initializers.Initializer,
) -> keras.initializers.Initializer:
    return keras.initializers.Zeros() if _TO_BE_LOADED.get() else initializer
