"""The k largest numbers of a row, faster than TensorFlow's operation on a CPU."""

import tensorflow as tf

_BLOCK = 64
"""Near the root of a vocabulary's size over k, where the work is least."""


def top_k(x: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds what `tf.math.top_k` finds, in a fraction of its time on a CPU.

    `tf.math.top_k` keeps a heap, through which every number goes one by one. Here a
    number goes through it only if its block's greatest is among the k greatest of all
    blocks': no other block can hold one of the k.

    Args:
        x: `[..., size]` float, of a static size. Of rows with a NaN nothing is promised
            but that the places exist.
        k: At most `size`.

    Returns:
        The k greatest, `[..., k]`, the greatest first, and their places, `[..., k]`
        int32; of equal numbers the one that stands first comes first.
    """
    size = x.shape[-1]
    blocks = -(-size // _BLOCK)
    if blocks < 2 * k:
        # Where all are wanted, TensorFlow sorts, and needs numbers that have an order.
        ordered = tf.where(tf.math.is_nan(x), -float("inf"), x) if k == size else x
        return tuple(tf.math.top_k(ordered, k))
    result = tf.concat([tf.shape(x)[:-1], [k]], axis=0)
    if blocks * _BLOCK > size:
        padding = [[0, 0]] * (x.shape.rank - 1) + [[0, blocks * _BLOCK - size]]
        x = tf.pad(x, padding, constant_values=-float("inf"))
    # [..., size] -> [rows, blocks, block]
    x = tf.reshape(x, [-1, blocks, _BLOCK])
    _, chosen = tf.math.top_k(tf.reduce_max(x, axis=2), k)
    # In their order in x, or equal numbers would change places.
    chosen = tf.sort(chosen, axis=1)
    # -> [rows, k * block]
    near = tf.reshape(tf.gather(x, chosen, batch_dims=1), [-1, k * _BLOCK])
    greatest, places = tf.math.top_k(near, k)
    block = tf.gather(chosen, places // _BLOCK, batch_dims=1)
    places = tf.minimum(block * _BLOCK + places % _BLOCK, size - 1)
    return tf.reshape(greatest, result), tf.reshape(places, result)
