"""Top-k of each row, faster than TensorFlow's operation on a CPU."""

import tensorflow as tf

_BLOCK = 64
"""Near the optimum, the square root of vocabulary size / k."""


def top_k(x: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the result of `tf.math.top_k` in a fraction of its time on a CPU.

    `tf.math.top_k` passes every number through a heap. Here, only the k blocks with the
    largest maxima are searched: no other block can contain one of the k largest
    numbers.

    Args:
        x: `[..., size]` float with static size. For rows that contain NaN, only the
            indices are guaranteed to be valid.
        k: Number of results, at most `size`.

    Returns:
        The k largest numbers, `[..., k]`, in descending order, and their indices,
        `[..., k]` int32. Of equal numbers, the one with the lower index comes first.
    """
    size = x.shape[-1]
    blocks = -(-size // _BLOCK)
    if blocks < 2 * k:
        # For k == size, TensorFlow sorts, which is undefined for NaN.
        ordered = tf.where(tf.math.is_nan(x), -float("inf"), x) if k == size else x
        return tuple(tf.math.top_k(ordered, k))
    result_shape = tf.concat([tf.shape(x)[:-1], [k]], axis=0)
    if blocks * _BLOCK > size:
        padding = [[0, 0]] * (x.shape.rank - 1) + [[0, blocks * _BLOCK - size]]
        x = tf.pad(x, padding, constant_values=-float("inf"))
    # [..., size] -> [rows, blocks, block]
    x = tf.reshape(x, [-1, blocks, _BLOCK])
    _, chosen = tf.math.top_k(tf.reduce_max(x, axis=2), k)
    # Ascending order of blocks keeps equal numbers in the order of their indices.
    chosen = tf.sort(chosen, axis=1)
    # -> [rows, k * block]
    searched = tf.reshape(tf.gather(x, chosen, batch_dims=1), [-1, k * _BLOCK])
    largest, indices = tf.math.top_k(searched, k)
    block = tf.gather(chosen, indices // _BLOCK, batch_dims=1)
    indices = tf.minimum(block * _BLOCK + indices % _BLOCK, size - 1)
    return tf.reshape(largest, result_shape), tf.reshape(indices, result_shape)
