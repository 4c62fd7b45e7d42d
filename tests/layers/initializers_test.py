"""Weight initializers: random weights, and zeros for weights loaded afterwards."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import LearnedPosition, Linear, SharedEmbedding
from t2t_keras.layers.initializers import zero_initialization


def matrices():
    """Returns the weights of one layer of each randomly initialized kind."""
    layers = [
        Linear(512, seed=3),
        SharedEmbedding(100, 256, seed=3),
        LearnedPosition(256, max_length=100, seed=3),
    ]
    inputs = [tf.zeros([1, 256]), tf.zeros([1, 1], tf.int32), tf.zeros([1, 1, 256])]
    for layer, x in zip(layers, inputs, strict=True):
        layer(x)
    return [layer.get_weights()[0] for layer in layers]


def test_initial_weights_have_the_expected_range_and_deviation():
    projection, *tables = matrices()
    # Glorot uniform: at most sqrt(6 / (inputs + outputs)) in absolute value.
    limit = np.sqrt(6 / (256 + 512))
    assert 0.99 * limit < np.abs(projection).max() <= limit
    for table in tables:
        np.testing.assert_allclose(table.std(), 256**-0.5, rtol=0.02)


def test_zero_initialization_applies_only_inside_its_context():
    expected = matrices()
    with zero_initialization():
        assert not any(matrix.any() for matrix in matrices())
    for before, after in zip(expected, matrices(), strict=True):
        np.testing.assert_array_equal(before, after)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
