"""Layer normalization beside Keras's own; shapes of which not all is known."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import LayerNorm
from t2t_keras.layers.shapes import reshape_last


def gradients(layer, x, d_y):
    """Returns the outputs, and the gradients of x, gamma and beta."""
    x = tf.Variable(x)
    with tf.GradientTape() as tape:
        y = layer(x)
        total = tf.reduce_sum(tf.cast(y, d_y.dtype) * d_y)
    return [y, *tape.gradient(total, [x, *(w.value for w in layer.weights)])]


@pytest.mark.parametrize("shape", [(3, 16), (2, 5, 16), (0, 5, 16)])
@pytest.mark.parametrize(
    ("policy", "dtype", "tolerance"),
    [
        ("float64", "float64", 1e-12),
        ("float32", "float32", 1e-4),
        ("mixed_bfloat16", "bfloat16", 0.05),
    ],
)
def test_normalization_and_its_gradient_are_those_of_kerass_layer(
    shape, policy, dtype, tolerance
):
    rng = np.random.default_rng(0)
    x = 3 + 2 * rng.normal(size=shape)
    x.reshape(-1, 16)[:1] = 3  # A position without variance.
    x = tf.cast(x, dtype)
    d_y = tf.constant(rng.normal(size=shape), "float64")
    ours = LayerNorm(epsilon=1e-5, dtype=policy)
    # Where ours rounds, Keras's in float64 is still the standard.
    keras_layer = keras.layers.LayerNormalization(epsilon=1e-5, dtype="float64")
    for layer in (ours, keras_layer):
        layer.build(shape)
        layer.set_weights([rng_values(16, 1), rng_values(16, 2)])
    found = gradients(ours, x, d_y)
    assert found[0].dtype == dtype
    expected = gradients(keras_layer, tf.cast(x, "float64"), d_y)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            tf.cast(one, "float64"), other, atol=tolerance * scale_of(other)
        )


def rng_values(size, seed):
    return np.random.default_rng(seed).normal(1, 0.3, size)


def scale_of(values):
    return max(1.0, float(np.abs(values).max(initial=0.0)))


@pytest.mark.parametrize(
    ("shape", "known"),
    [
        ((2, 3, 8), [None, None, 8]),
        ((2, 3, 8), [None, 3, 8]),
        ((2, 3, 8), [2, 3, 8]),
        ((0, 3, 8), [None, None, 8]),
        ((0, 3, 8), [0, 3, 8]),
        ((2, 0, 8), [None, None, 8]),
        ((2, 0, 8), [2, 0, 8]),
    ],
)
def test_reshaping_keeps_the_first_axes_whatever_is_known_of_them(shape, known):
    @tf.function(input_signature=[tf.TensorSpec(known)])
    def split_heads(x):
        return reshape_last(tf.reshape(x, [-1, 8]), like=x, axes=2, last=[4, 2])

    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(split_heads(x), x.reshape(*shape[:2], 4, 2))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
