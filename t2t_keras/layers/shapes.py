"""Checks and reshapes for shapes that are not fully known until a graph runs."""

from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import keras
import tensorflow as tf

Size = Any  # int | tf.Tensor, but TensorFlow has no type hints for mypy.
"""Size of an axis: an integer, or a scalar int32 tensor if it is known only when a
graph runs."""

Expected = tuple[Size | EllipsisType | None, ...]
"""Expected shape: None is any size, a leading `...` is one or more axes."""


def size_of(x: tf.Tensor, axis: int) -> Size:
    """Returns the size of an axis, statically where possible."""
    return tf.shape(x)[axis] if x.shape[axis] is None else x.shape[axis]


def require_shape(
    x: Any, expected: Expected, layer: keras.layers.Layer, argument: str
) -> tf.Tensor:
    """Checks the shape of a layer's argument, statically where possible.

    Without this check, a reshape or a broadcast would accept many wrong shapes.
    Sizes that are statically known are checked in Python and cost nothing. Only for an
    unknown size, an operation checks it when the graph runs (under XLA: when it is
    compiled).

    Args:
        x: Value of the argument.
        expected: Expected shape. Sizes that are tensors (from `size_of`) are compared
            when the graph runs, but not under XLA, and cannot be combined with `...`.
        layer: Layer that received `x`, for the message.
        argument: Name of the argument, for the message.

    Returns:
        `x` as a tensor whose static shape includes the expected sizes.

    Raises:
        ValueError: If the static shape does not match. A mismatch at run time is a
            `tf.errors.InvalidArgumentError`.
    """
    x = tf.convert_to_tensor(x)
    shape = None if x.shape.rank is None else x.shape.as_list()
    known = check_shape(
        shape,
        tuple(None if tf.is_tensor(size) else size for size in expected),
        layer,
        argument,
    )
    checks = [
        tf.debugging.assert_equal(
            tf.shape(x)[axis],
            size,
            f"{type(layer).__name__} {layer.name!r}: {argument} has the wrong size in "
            f"axis {axis}.",
        )
        for axis, size in enumerate(expected)
        if tf.is_tensor(size)
    ]
    if checks:
        with tf.control_dependencies(checks):
            x = tf.identity(x)
    return x if known == shape else tf.ensure_shape(x, known)


def check_shape(
    shape: Sequence[int | None] | None,
    expected: Expected,
    layer: keras.layers.Layer,
    argument: str,
) -> list[int | None]:
    """Checks the known sizes of a shape.

    Args:
        shape: Shape with None for unknown sizes, or None if the rank is unknown.
        expected: Expected shape.
        layer: Layer that received it, for the message.
        argument: Name of the argument, for the message.

    Returns:
        The shape, with expected sizes in place of unknown ones.

    Raises:
        ValueError: If the rank or a known size does not match, or the rank is unknown.
    """
    wanted = [size for size in expected if size is not ...]
    if len(wanted) < len(expected):
        wanted[:0] = [None] * max(1, len(shape or ()) - len(wanted))
    if (
        shape is None
        or len(shape) != len(wanted)
        or any(
            None not in (one, other) and one != other
            for one, other in zip(shape, wanted, strict=True)
        )
    ):
        raise ValueError(
            f"{type(layer).__name__} {layer.name!r}: {argument} must have shape "
            f"{_format_shape(expected)}. Received shape: "
            f"{'unknown' if shape is None else _format_shape(shape)}"
        )
    return [
        other if one is None else one for one, other in zip(shape, wanted, strict=True)
    ]


def _format_shape(shape: Sequence[Any]) -> str:
    return f"[{', '.join('...' if size is ... else str(size) for size in shape)}]"


def reshape_last(x: tf.Tensor, like: tf.Tensor, axes: int, last: Sequence[int]) -> Any:
    """Reshapes a tensor to the first axes of another one and given last axes.

    Args:
        x: Tensor to reshape.
        like: Tensor whose first `axes` sizes are used.
        axes: Number of axes to take from `like`, at least 1 (the batch).
        last: Sizes of the last axes.

    Returns:
        `[*like.shape[:axes], *last]`.
    """
    inner = like.shape[1:axes].as_list()
    if all(inner):  # All known, and none is 0, with which -1 would be ambiguous.
        # Avoid computing the shape in the graph: with one such operation per
        # projection, start-up and each step of beam search take measurably longer.
        return tf.reshape(x, [-1, *inner, *last])
    return tf.reshape(x, tf.concat([tf.shape(like)[:axes], last], axis=0))
