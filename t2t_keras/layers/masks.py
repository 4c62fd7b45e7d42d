"""Boolean attention masks: True where a query may attend to a key.

Every mask broadcasts to `[batch, heads, query, key]`, so that two of them are
joined by `&`.
"""

import tensorflow as tf

from t2t_keras.tokens import PAD_ID


def padding_mask(ids: tf.Tensor) -> tf.Tensor:
    """Lets every query see the keys that are real tokens.

    Args:
        ids: `[batch, key]` integer token ids.

    Returns:
        `[batch, 1, 1, key]` bool, False where `ids` is `PAD_ID`.
    """
    return tf.not_equal(ids, PAD_ID)[:, tf.newaxis, tf.newaxis, :]


def causal_mask(length: int | tf.Tensor) -> tf.Tensor:
    """Lets position i see the positions 0..i (section 3.2.3).

    Args:
        length: The number of positions, a Python or a scalar int32 tensor.

    Returns:
        `[1, 1, length, length]` bool, the lower triangle True.
    """
    positions = tf.range(length)
    visible = positions[:, tf.newaxis] >= positions[tf.newaxis, :]
    return visible[tf.newaxis, tf.newaxis, :, :]


def window_mask(queries: tf.Tensor, keys: tf.Tensor, window: int) -> tf.Tensor:
    """Lets a position see those around it (section 4, restricted self-attention).

    Args:
        queries: Scalar int32, the number of queries; they are the last positions.
        keys: Scalar int32, the number of positions.
        window: Of the paper's r: position i sees i - r // 2 to i + r // 2.

    Returns:
        `[1, 1, query, key]` bool.
    """
    positions = tf.range(keys)
    distance = positions[keys - queries :, tf.newaxis] - positions[tf.newaxis, :]
    return (tf.abs(distance) <= window // 2)[tf.newaxis, tf.newaxis, :, :]
