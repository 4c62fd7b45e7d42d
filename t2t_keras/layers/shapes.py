"""Reshaping by what is known of a shape."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def reshape_last(x: tf.Tensor, like: tf.Tensor, axes: int, last: Sequence[int]) -> Any:
    """Gives a tensor the first axes of another and, after them, sizes of its own.

    Args:
        x: What to reshape.
        like: Of which the first `axes` sizes are taken, at least the batch.
        axes: How many.
        last: The sizes after them.

    Returns:
        `[*like.shape[:axes], *last]`.
    """
    inner = like.shape[1:axes].as_list()
    if all(inner):  # Neither unknown nor 0, beside which -1 would mean nothing.
        # No operation to find a shape out: as many as there are projections, they add
        # to the start of a program, and to each step of a search.
        return tf.reshape(x, [-1, *inner, *last])
    return tf.reshape(x, tf.concat([tf.shape(like)[:axes], last], axis=0))
