"""Scaled dot-product attention (section 3.2.1), full or restricted to a window."""

import tensorflow as tf

from t2t_keras.layers.dropout import Dropout
from t2t_keras.layers.masks import fit_mask


def scaled_dot_product_attention(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    mask: tf.Tensor | None = None,
    dropout: Dropout | None = None,
    training: bool | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V (eq. 1).

    Args:
        query: `[..., query, d_k]` float.
        key: `[..., key, d_k]` float.
        value: `[..., key, d_v]` float.
        mask: Bool that broadcasts to `[..., query, key]`, True = attend. With rank 3,
            its first axis is the batch. Default: attend to everything. A query whose
            keys are all masked attends to all keys equally.
        dropout: Dropout layer for the attention weights. Default: no dropout.
        training: Passed to `dropout`.

    Returns:
        The weighted sums `[..., query, d_v]` and the weights `[..., query, key]`
        (before dropout), both in the dtype of `query`.

    Raises:
        ValueError: If the mask is not boolean or does not broadcast to the weights.
    """
    query, key, value = (tf.convert_to_tensor(x) for x in (query, key, value))
    if not all(query.shape[:-2].is_compatible_with(x.shape[:-2]) for x in (key, value)):
        raise ValueError(
            "Queries, keys and values must have the same batch and heads. Received "
            f"shapes: {query.shape}, {key.shape}, {value.shape}"
        )
    d_k = query.shape[-1]
    scores = tf.matmul(query * d_k**-0.5, key, transpose_b=True)
    # In low precision, the sums of a softmax have only two or three correct digits.
    exact = scores.dtype if scores.dtype == tf.float64 else tf.float32
    scores = tf.cast(scores, exact)
    if mask is not None:
        mask = fit_mask(mask, scores.shape)
        scores = tf.where(mask, scores, tf.constant(-1e9, exact))
    weights = tf.cast(tf.nn.softmax(scores), query.dtype)
    dropped = dropout(weights, training=training) if dropout else weights
    return tf.matmul(dropped, value), weights


def windowed_attention(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    mask: tf.Tensor | None = None,
    dropout: Dropout | None = None,
    training: bool | None = None,
    window: int = 1,
) -> tf.Tensor:
    """Restricted self-attention: each position attends to a window (section 4).

    Positions are grouped into blocks of `window // 2`. A block attends only to itself
    and its two neighbors, so the cost grows with length times window.

    Args:
        query: `[batch, heads, length, d_k]` float.
        key: `[batch, heads, length, d_k]` float.
        value: `[batch, heads, length, d_v]` float.
        mask: Bool of shape `[batch, length, length]`, or one that broadcasts to
            `[batch, heads, length, length]`, True = attend. Default: attend to the
            whole window.
        dropout: Dropout layer for the attention weights. Default: no dropout.
        training: Passed to `dropout`.
        window: Position i attends to i - window // 2 to i + window // 2.

    Returns:
        `[batch, heads, length, d_v]` in the dtype of `query`. Equals
        `scaled_dot_product_attention` with `window_mask`, except that a query whose
        keys are all masked attends equally to the keys of its three blocks.
    """
    block = max(window // 2, 1)
    length = tf.shape(query)[2]
    blocks = -(-length // block)

    def blocked(x: tf.Tensor) -> tf.Tensor:
        # [batch, heads, length, depth] -> [batch, heads, blocks, block, depth]
        x = tf.pad(x, [[0, 0], [0, 0], [0, blocks * block - length], [0, 0]])
        shape = tf.shape(x)
        return tf.reshape(x, [shape[0], shape[1], blocks, block, x.shape[-1]])

    def neighborhood(x: tf.Tensor) -> tf.Tensor:
        # Concatenate each block with the previous and the next one:
        # [batch, heads, blocks, block, depth] -> [batch, heads, blocks, 3 block, depth]
        x = tf.pad(x, [[0, 0], [0, 0], [1, 1], [0, 0], [0, 0]])
        return tf.concat([x[:, :, :-2], x[:, :, 1:-1], x[:, :, 2:]], axis=3)

    # Positions of queries and keys: [blocks, block] and [blocks, 3 block].
    queries = tf.reshape(tf.range(blocks * block), [blocks, block])
    keys = queries[:, :1] + tf.range(-block, 2 * block)[tf.newaxis, :]
    is_near = tf.abs(queries[:, :, tf.newaxis] - keys[:, tf.newaxis]) <= window // 2
    is_real = (keys >= 0) & (keys < length)
    # [1, 1, blocks, block, 3 block]
    visible = (is_near & is_real[:, tf.newaxis])[tf.newaxis, tf.newaxis]
    if mask is not None:
        mask = fit_mask(mask, [*query.shape[:3], query.shape[2]])
        # [batch or 1, heads or 1, length or 1, length]
        each = 1 if mask.shape[2] == 1 else length
        mask = tf.broadcast_to(mask, [*tf.unstack(tf.shape(mask)[:2]), each, length])
        rows, columns = (
            tf.minimum(queries, length - 1),
            tf.clip_by_value(keys, 0, length - 1),
        )
        if mask.shape[2] == 1:
            # [..., 1, length] -> [..., blocks, 1, 3 block]
            near = tf.gather(mask[:, :, 0], columns, axis=2)[:, :, :, tf.newaxis]
        else:
            # [..., length, length] -> [..., blocks, block, 3 block]
            places = rows[:, :, tf.newaxis] * length + columns[:, tf.newaxis]
            shape = tf.shape(mask)
            flat = tf.reshape(mask, [shape[0], shape[1], shape[2] * shape[3]])
            near = tf.gather(flat, places, axis=2)
        visible = visible & near
    context, _ = scaled_dot_product_attention(
        blocked(query),
        neighborhood(blocked(key)),
        neighborhood(blocked(value)),
        visible,
        dropout,
        training,
    )
    shape = tf.shape(context)
    # [batch, heads, blocks, block, d_v] -> [batch, heads, length, d_v]
    context = tf.reshape(context, [shape[0], shape[1], blocks * block, value.shape[-1]])
    return context[:, :, :length]
