"""Top-k against TensorFlow's operation."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.top_k import top_k

IMPOSSIBLE = -1e9


def numbers(kind, shape):
    generator = np.random.default_rng(3)
    x = generator.normal(size=shape).astype(np.float32)
    if kind == "with ties":
        return np.round(x)
    if kind == "all equal":
        return np.zeros_like(x)
    if kind == "few possible":
        x[..., 5:] = IMPOSSIBLE
    if kind == "few finite":
        x[..., :-3] = -np.inf
    if kind == "ascending":
        return np.sort(x)
    return x


@pytest.mark.parametrize(
    "kind",
    [
        *("all different", "with ties", "all equal", "ascending"),
        *("few possible", "few finite"),
    ],
)
# Sizes that are multiples of the block, that are not, and without blocks.
@pytest.mark.parametrize(
    ("size", "k"), [(8000, 8), (1024, 8), (1025, 8), (1023, 8), (700, 1), (9, 9)]
)
def test_top_k_equals_tensorflows(kind, size, k):
    x = numbers(kind, (2, 3, size))
    found = tf.function(top_k, autograph=False)(x, k)
    for ours, theirs in zip(found, tf.math.top_k(x, k), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


def test_number_of_rows_may_be_unknown():
    x = numbers("with ties", (3, 4, 1000))
    spec = tf.TensorSpec([None, 4, 1000], tf.float32)
    traced = tf.function(lambda x: top_k(x, 7), [spec], autograph=False)
    assert traced.get_concrete_function().structured_outputs[0].shape[1] == 4
    np.testing.assert_array_equal(traced(x)[1], tf.math.top_k(x, 7).indices)


def test_empty_batch_is_allowed():
    largest, indices = top_k(tf.zeros([0, 4, 8000]), 8)
    assert largest.shape == indices.shape == (0, 4, 8)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
