"""What weights begin as, drawn and to be loaded."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import LearnedPosition, Linear, SharedEmbedding
from t2t_keras.layers.initializers import zero_initialization


def matrices():
    """Builds a layer of each kind that draws its weights, from the same seeds."""
    layers = [
        Linear(512, seed=3),
        SharedEmbedding(100, 256, seed=3),
        LearnedPosition(256, max_length=100, seed=3),
    ]
    inputs = [tf.zeros([1, 256]), tf.zeros([1, 1], tf.int32), tf.zeros([1, 1, 256])]
    for layer, x in zip(layers, inputs, strict=True):
        layer(x)
    return [layer.get_weights()[0] for layer in layers]


def test_weights_are_drawn_with_the_spread_that_training_needs():
    projection, *tables = matrices()
    # Glorot's uniform numbers lie within sqrt(6 / (inputs + outputs)) of zero.
    most = np.sqrt(6 / (256 + 512))
    assert 0.99 * most < np.abs(projection).max() <= most
    for table in tables:
        np.testing.assert_allclose(table.std(), 256**-0.5, rtol=0.02)


def test_those_to_be_loaded_are_zeros_and_the_next_are_drawn_again():
    drawn = matrices()
    with zero_initialization():
        assert not any(matrix.any() for matrix in matrices())
    for before, after in zip(drawn, matrices(), strict=True):
        np.testing.assert_array_equal(before, after)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
