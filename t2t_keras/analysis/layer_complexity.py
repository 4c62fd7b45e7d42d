"""Time of a layer against length and size (section 4, Table 1)."""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.layers.attention import MultiHeadAttention

_HEADS = 8


class LayerKind(NamedTuple):
    """A kind of layer of Table 1.

    Attributes:
        complexity: Operations of a layer, as the paper states them; n is the length, d
            the size, r the window, k the width of a convolution.
        sequential: Operations that must wait for each other.
        path: How many steps a signal takes between the two ends.
        power: The power of n in `complexity`.
        make: Makes one, given d, r and k.
    """

    complexity: str
    sequential: str
    path: str
    power: int
    make: Callable[[int, int, int], keras.layers.Layer]


LAYERS: dict[str, LayerKind] = {
    "self-attention": LayerKind(
        "O(n^2 d)", "O(1)", "O(1)", 2, lambda d, r, k: MultiHeadAttention(_HEADS, d)
    ),
    "restricted": LayerKind(
        "O(r n d)",
        "O(1)",
        "O(n/r)",
        1,
        lambda d, r, k: MultiHeadAttention(_HEADS, d, attention_window=r),
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
"""The layers of Table 1, by name. Attention has 8 heads, and, as in a model, its
projections, which add O(n d^2)."""


class Measurement(NamedTuple):
    """How long a layer took.

    Attributes:
        layer: A key of `LAYERS`.
        n: The length.
        d: The size.
        forward_seconds: Median time of a forward pass over a batch.
        training_seconds: Median time of a forward and a backward pass.
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
    """Times all kinds of layers on random input, compiled as a `tf.function`.

    The layers take turns, so that whatever else the machine does meets all of them.

    Args:
        lengths: Values of n.
        sizes: Values of d, multiples of 8.
        window: r of restricted self-attention. Default 32.
        kernel: k of the convolution. Default 3.
        batch: Sequences of a batch. Default 1.
        repeats: Runs that a median is taken of. Default 5.

    Returns:
        An iterator over the measurements of one length and size after another.

    Raises:
        UserError: If a size is no multiple of the 8 heads.
    """
    for d in sizes:
        if d % _HEADS:
            raise UserError(f"Sizes are multiples of {_HEADS}. Received: {d}")
    # A generator would find that out when it is asked for its first item.
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
        # Sums, so that nothing large is copied out of the graph.
        return [tf.reduce_sum(g) for g in tape.gradient(total, [x, *variables])]

    return lambda: forward().numpy(), lambda: [g.numpy() for g in training()]


def exponent(lengths: Sequence[float], seconds: Sequence[float]) -> float:
    """Returns the power of n that times grow with, between the two greatest lengths.

    Args:
        lengths: Two or more different lengths, ascending.
        seconds: The time of each.
    """
    return math.log(seconds[-1] / seconds[-2]) / math.log(lengths[-1] / lengths[-2])


def crossover(
    lengths: Sequence[float], one: Sequence[float], other: Sequence[float]
) -> float | None:
    """Returns the length from which on one layer takes longer than another.

    Args:
        lengths: Ascending.
        one: Its time at each length.
        other: The other's.

    Returns:
        The length, interpolated in logarithms where the curves cross for the last
        time; None if one is not slower at the greatest length; the least length if it
        is slower throughout.
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
