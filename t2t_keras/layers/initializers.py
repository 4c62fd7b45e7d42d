"""Weight initializers."""

import contextlib
import contextvars
from collections.abc import Iterator

import keras

_USE_ZEROS = contextvars.ContextVar("_USE_ZEROS", default=False)


@contextlib.contextmanager
def zero_initialization() -> Iterator[None]:
    """Context in which layers initialize their weights to zero instead of randomly.

    Use it to build a model whose weights are all loaded afterwards: drawing millions of
    random numbers takes as long as reading the weights from a file.
    """
    token = _USE_ZEROS.set(True)
    try:
        yield
    finally:
        _USE_ZEROS.reset(token)


def kernel_initializer(seed: int) -> keras.initializers.Initializer:
    """Returns the initializer of a kernel (Glorot and Bengio, 2010, uniform).

    Args:
        seed: Random seed.
    """
    return _zeros_or(keras.initializers.GlorotUniform(seed))


def embeddings_initializer(d_model: int, seed: int) -> keras.initializers.Initializer:
    """Returns the initializer of an embedding table: normal, variance 1 / d_model.

    Args:
        d_model: Size of an embedding.
        seed: Random seed.
    """
    return _zeros_or(keras.initializers.RandomNormal(stddev=d_model**-0.5, seed=seed))


def _zeros_or(
    initializer: keras.initializers.Initializer,
) -> keras.initializers.Initializer:
    return keras.initializers.Zeros() if _USE_ZEROS.get() else initializer
