"""Boolean attention masks: True where a query may attend to a key.

All masks broadcast to `[batch, heads, query, key]`, so they can be combined with `&`.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from t2t_keras.special_tokens import PAD_ID


def padding_mask(ids: tf.Tensor) -> tf.Tensor:
    """Masks padding: every query may attend to all keys that are not padding.

    Args:
        ids: `[batch, key]` integer token ids.

    Returns:
        `[batch, 1, 1, key]` bool, False where `ids` is `PAD_ID`.
    """
    return tf.not_equal(ids, PAD_ID)[:, tf.newaxis, tf.newaxis, :]


def causal_mask(length: int | tf.Tensor) -> tf.Tensor:
    """Masks later positions: position i may attend to 0..i (section 3.2.3).

    Args:
        length: Number of positions, a Python integer or a scalar int32 tensor.

    Returns:
        `[1, 1, length, length]` bool, True in the lower triangle.
    """
    positions = tf.range(length)
    visible = positions[:, tf.newaxis] >= positions[tf.newaxis, :]
    return visible[tf.newaxis, tf.newaxis, :, :]


def window_mask(
    positions: tf.Tensor, key_positions: tf.Tensor, window: int
) -> tf.Tensor:
    """Masks positions outside a window around the query (section 4).

    Args:
        positions: `[query]` or `[batch, query]` integer, the positions of the queries
            in their sequences.
        key_positions: `[key]` or `[batch, key]` integer, the positions of the keys.
        window: Size of the window, r in the paper: position i may attend to i - r // 2
            up to i + r // 2.

    Returns:
        `[batch or 1, 1, query, key]` bool.

    Raises:
        ValueError: If positions do not have rank 1 or 2.
    """
    queries, keys = (
        _with_batch(x, name)
        for x, name in ((positions, "positions"), (key_positions, "key_positions"))
    )
    distance = queries[:, :, tf.newaxis] - keys[:, tf.newaxis, :]
    return (tf.abs(distance) <= window // 2)[:, tf.newaxis]


def _with_batch(positions: Any, name: str) -> tf.Tensor:
    positions = tf.cast(positions, tf.int32)
    if positions.shape.rank not in (1, 2):
        raise ValueError(
            f"{name} must have shape [length] or [batch, length]. "
            f"Received shape: {positions.shape}"
        )
    return positions if positions.shape.rank == 2 else positions[tf.newaxis]


def fit_mask(mask: Any, shape: Sequence[int | None]) -> tf.Tensor:
    """Adds the missing axes to an attention mask, so that it broadcasts correctly.

    Args:
        mask: Bool of shape `[key]`, `[query, key]`, `[batch, query, key]` (the
            convention of Keras) or `[batch, heads, query, key]`. Any axis may be 1.
        shape: Static shape of the attention weights, `[batch, heads, query, key]`, or
            `[batch, query, key]` without heads.

    Returns:
        The mask with the rank of the weights.

    Raises:
        ValueError: If the mask is not boolean or does not broadcast to the weights.
    """
    mask = tf.convert_to_tensor(mask)
    if mask.dtype != tf.bool:
        raise ValueError(
            "The attention mask must be boolean (True = attend). Received dtype: "
            f"{mask.dtype.name}"
        )
    if mask.shape.rank is None:
        mask = tf.ensure_shape(mask, [None] * len(shape))
    received = mask.shape
    while len(mask.shape) < len(shape):
        # The batch stays the first axis: the heads axis is inserted after it.
        mask = tf.expand_dims(mask, -3 if len(mask.shape) > 1 else 0)
    sizes = list(zip(mask.shape, shape, strict=False))
    if len(mask.shape) != len(shape) or any(
        None not in pair and pair[0] not in (1, pair[1]) for pair in sizes
    ):
        raise ValueError(
            "The attention mask must broadcast to the attention weights. Received: "
            f"mask of shape {received} for weights of shape {(*shape,)}"
        )
    # A query axis of size 1, as in incremental decoding, must not be broadcast.
    known = [1 if size == 1 else own for own, size in sizes]
    return mask if known == mask.shape.as_list() else tf.ensure_shape(mask, known)
