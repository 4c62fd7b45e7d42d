"""Linear recurrences, computed for all positions in parallel."""

import functools
from typing import Any

import tensorflow as tf

from t2t_keras.layers.gradient_lifetime import free_gradient_with_graph


def linear_recurrence(decay: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """Computes y_t = decay_t * y_(t-1) + inputs_t for all positions t, with y_0 = 0.

    The recurrence is an associative operation on pairs (decay, inputs), so that its
    prefixes are computed in log2(length) steps (Hillis and Steele, 1986). The gradient
    is the same recurrence from the last position to the first; it keeps only `decay`
    and the result, not the intermediate steps.

    Args:
        decay: `[batch, length, size]` float32 or float64.
        inputs: The same shape and dtype.

    Returns:
        `[batch, length, size]` in the same dtype.
    """
    outputs = _recurrence_with_gradient(decay, inputs)
    free_gradient_with_graph(outputs)
    return tf.ensure_shape(outputs, inputs.shape)


@tf.custom_gradient
def _recurrence_with_gradient(decay: tf.Tensor, inputs: tf.Tensor) -> Any:
    outputs = _scan(decay, inputs)

    def gradient(d_outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # d_inputs_t = d_outputs_t + decay_(t+1) * d_inputs_(t+1)
        next_decay = tf.pad(decay, [[0, 0], [0, 1], [0, 0]])[:, 1:]
        reverse = functools.partial(tf.reverse, axis=[1])
        d_inputs = reverse(_scan(reverse(next_decay), reverse(d_outputs)))
        previous = tf.pad(outputs, [[0, 0], [1, 0], [0, 0]])[:, :-1]
        return d_inputs * previous, d_inputs

    return outputs, gradient


def _scan(decay: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
    """Returns the recurrence, from windows of 1, 2, 4, ... positions."""
    positions = tf.range(tf.shape(inputs)[1])
    # Without a previous position there is nothing to decay. As every window that
    # would begin before the first position contains it, its decay is 0 too: what is
    # gathered for it below does not count.
    has_previous = tf.cast(positions > 0, decay.dtype)[:, tf.newaxis]

    def double(size: tf.Tensor, decay: tf.Tensor, outputs: tf.Tensor) -> Any:
        before = tf.maximum(positions - size, 0)
        outputs += decay * tf.gather(outputs, before, axis=1)
        return 2 * size, decay * tf.gather(decay, before, axis=1), outputs

    return tf.while_loop(
        lambda size, *_: size < tf.size(positions),
        double,
        (tf.constant(1), decay * has_previous, inputs),
    )[-1]
