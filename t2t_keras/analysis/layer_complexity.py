"""Time of layers by sequence length and size (section 4, Table 1)."""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.layers.self_attention import SelfAttention

_HEADS = 8


class LayerKind(NamedTuple):
    """A layer type of Table 1.

    Attributes:
        complexity: Complexity per layer as in the paper. n is the length, d the size, r
            the window, k the kernel width of a convolution.
        sequential: Number of sequential operations.
        path: Maximum path length between two positions.
        power: Exponent of n in `complexity`.
        make: Creates a layer, given d, r and k.
    """

    complexity: str
    sequential: str
    path: str
    power: int
    make: Callable[[int, int, int], keras.layers.Layer]


LAYERS: dict[str, LayerKind] = {
    "self-attention": LayerKind(
        "O(n^2 d)", "O(1)", "O(1)", 2, lambda d, r, k: SelfAttention(_HEADS, d)
    ),
    "restricted": LayerKind(
        "O(r n d)",
        "O(1)",
        "O(n/r)",
        1,
        lambda d, r, k: SelfAttention(_HEADS, d, attention_window=r),
    ),
    "LSTM": LayerKind(
        "O(n d^2)",
        "O(n)",
        "O(n)",
        1,
        lambda d, r, k: keras.layers.LSTM(d, return_sequences=True),
    ),
    "GRU": LayerKind(
        "O(n d^2)",
        "O(n)",
        "O(n)",
        1,
        lambda d, r, k: keras.layers.GRU(d, return_sequences=True),
    ),
    "convolution": LayerKind(
        "O(k n d^2)",
        "O(1)",
        "O(log_k(n))",
        1,
        lambda d, r, k: keras.layers.Conv1D(d, k, padding="same"),
    ),
}
"""The layers of Table 1 by name. Attention has 8 heads and includes its projections,
which add O(n d^2)."""


class Measurement(NamedTuple):
    """Measured times of a layer.

    Attributes:
        layer: A key of `LAYERS`.
        n: Sequence length.
        d: Size.
        forward_seconds: Median time of a forward pass over a batch, in seconds.
        training_seconds: Median time of a forward and backward pass, in seconds.
    """

    layer: str
    n: int
    d: int
    forward_seconds: float
    training_seconds: float


def measure(
    lengths: Sequence[int],
    sizes: Sequence[int],
    window: int = 32,
    kernel: int = 3,
    batch: int = 1,
    repeats: int = 5,
) -> Iterator[Measurement]:
    """Times all layers on random input, compiled as a `tf.function`.

    The runs of the layers alternate, so that other load on the machine affects all of
    them equally.

    Args:
        lengths: Values of n.
        sizes: Values of d, multiples of 8.
        window: Window r of restricted self-attention. Default 32.
        kernel: Kernel width k of the convolution. Default 3.
        batch: Number of sequences per batch. Default 1.
        repeats: Number of runs per median. Default 5.

    Returns:
        An iterator over the measurements, by size, then by length.

    Raises:
        UserError: If a size is not a multiple of the 8 heads.
    """
    for d in sizes:
        if d % _HEADS:
            raise UserError(f"Sizes must be multiples of {_HEADS}. Received: {d}")
    # Delegate to a generator, which would check only when its first item is requested.
    return _measure(lengths, sizes, window, kernel, batch, repeats)


def _measure(
    lengths: Sequence[int],
    sizes: Sequence[int],
    window: int,
    kernel: int,
    batch: int,
    repeats: int,
) -> Iterator[Measurement]:
    for d, n in itertools.product(sizes, lengths):
        x = tf.random.stateless_normal([batch, n, d], [n, d])
        passes = {
            name: _passes(kind.make(d, window, kernel), x)
            for name, kind in LAYERS.items()
        }
        times: dict[tuple[str, int], list[float]] = {}
        for turn in range(repeats + 1):
            for name, both in passes.items():
                for which, run in enumerate(both):
                    started = time.perf_counter()
                    run()
                    elapsed = time.perf_counter() - started
                    if turn:  # The first run compiles.
                        times.setdefault((name, which), []).append(elapsed)
        for name in LAYERS:
            forward, training = (statistics.median(times[name, i]) for i in (0, 1))
            yield Measurement(name, n, d, forward, training)


def _passes(
    layer: keras.layers.Layer, x: tf.Tensor
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    layer(x)  # Creates the weights.

    @tf.function
    def forward() -> tf.Tensor:
        return tf.reduce_sum(layer(x))

    @tf.function
    def training() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(layer(x))
        variables = [v.value for v in layer.trainable_variables]
        # Return sums, to avoid copying large tensors out of the graph.
        return [tf.reduce_sum(g) for g in tape.gradient(total, [x, *variables])]

    return lambda: forward().numpy(), lambda: [g.numpy() for g in training()]


def exponent(lengths: Sequence[float], seconds: Sequence[float]) -> float:
    """Returns the exponent of n in the growth of times between the two largest lengths.

    Args:
        lengths: Two or more different lengths in ascending order.
        seconds: Time at each length.
    """
    return math.log(seconds[-1] / seconds[-2]) / math.log(lengths[-1] / lengths[-2])


def crossover(
    lengths: Sequence[float], one: Sequence[float], other: Sequence[float]
) -> float | None:
    """Returns the length from which one layer is slower than another.

    Args:
        lengths: Lengths in ascending order.
        one: Time of the layer at each length.
        other: Time of the other layer at each length.

    Returns:
        The length at which the curves cross for the last time, interpolated
        logarithmically. None if the layer is not slower at the largest length. The
        smallest length if it is slower at all lengths.
    """
    ratios = [math.log(a / b) for a, b in zip(one, other, strict=True)]
    if ratios[-1] <= 0:
        return None
    for i in range(len(lengths) - 1, 0, -1):
        if ratios[i - 1] <= 0:
            share = -ratios[i - 1] / (ratios[i] - ratios[i - 1])
            low, high = math.log(lengths[i - 1]), math.log(lengths[i])
            return math.exp(low + share * (high - low))
    return lengths[0]
