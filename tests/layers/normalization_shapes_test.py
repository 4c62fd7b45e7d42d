"""Layer normalization matches Keras; reshapes with partly unknown shapes."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import LayerNorm
from t2t_keras.layers.shapes import reshape_last


def gradients(layer, x, d_y):
    """Returns the outputs and the gradients with respect to x, gamma and beta."""
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
def test_layer_norm_and_its_gradient_match_keras(shape, policy, dtype, tolerance):
    rng = np.random.default_rng(0)
    x = 3 + 2 * rng.normal(size=shape)
    x.reshape(-1, 16)[:1] = 3  # A position with zero variance.
    x = tf.cast(x, dtype)
    d_y = tf.constant(rng.normal(size=shape), "float64")
    ours = LayerNorm(epsilon=1e-5, dtype=policy)
    # The reference is always computed in float64.
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


OTHER_FORMS = [
    {"axis": 1},
    {"axis": -2},
    {"axis": [1, 2]},
    {"axis": (-1, 1)},
    {"axis": 3},
    {"center": False},
    {"scale": False},
    {"center": False, "scale": False},
    {"axis": 1, "center": False, "scale": False},
]


@pytest.mark.parametrize("form", OTHER_FORMS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "mixed_bfloat16"])
def test_axis_center_and_scale_match_the_definition(form, dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(2, 3, (2, 3, 4, 5))
    layer = LayerNorm(epsilon=1e-5, dtype=dtype, **form)
    layer.build(x.shape)
    assert len(layer.weights) == sum(form.get(k, True) for k in ("scale", "center"))
    layer.set_weights([rng.normal(1, 0.3, w.shape) for w in layer.weights])
    given = form.get("axis", -1)
    axes = tuple({a % 4 for a in (given if np.iterable(given) else [given])})
    centered = x - x.mean(axes, keepdims=True)
    expected = centered / np.sqrt((centered**2).mean(axes, keepdims=True) + 1e-5)
    sizes = [size if axis in axes else 1 for axis, size in enumerate(x.shape)]
    values = [w.numpy().astype(np.float64).reshape(sizes) for w in layer.weights]
    if form.get("scale", True):
        expected = expected * values.pop(0)
    if form.get("center", True):
        expected = expected + values.pop(0)
    tolerance = {"float32": 1e-5, "float64": 1e-12, "mixed_bfloat16": 0.05}[dtype]
    inputs = tf.cast(x, layer.compute_dtype)
    again = LayerNorm.from_config(layer.get_config())
    again.build(x.shape)
    again.set_weights(layer.get_weights())
    for one in (layer, again):
        np.testing.assert_allclose(
            tf.cast(one(inputs), tf.float64), expected, atol=tolerance
        )


def test_layer_norm_rejects_missing_axes_and_other_sizes():
    for form, shape in (({"axis": 1}, (2, 4, 5)), ({}, (2, 3, 1))):
        layer = LayerNorm(**form)
        layer.build((2, 3, 5))
        with pytest.raises(ValueError, match="Received shape"):
            layer(tf.zeros(shape))
    with pytest.raises(ValueError, match=r"axes \[3\]"):
        LayerNorm(axis=3)(tf.zeros([2, 3, 5]))
    with pytest.raises(ValueError, match=r"axes \[-1\]"):
        LayerNorm().build((None, None))


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
def test_reshape_last_works_with_partly_unknown_shapes(shape, known):
    @tf.function(input_signature=[tf.TensorSpec(known)])
    def split_heads(x):
        return reshape_last(tf.reshape(x, [-1, 8]), like=x, axes=2, last=[4, 2])

    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(split_heads(x), x.reshape(*shape[:2], 4, 2))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
