"""Custom gradients in graphs: they work, and are freed with their graphs."""

import gc
import sys
import weakref

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import FeedForward
from t2t_keras.layers.output_projection import OutputProjection


def fused_loss(dtype):
    rng = np.random.default_rng(0)
    projection = OutputProjection(
        tf.Variable(rng.normal(size=(13, 6)), dtype=tf.float32)
    )
    labels = tf.constant([4, 5, 0, 12, 4])
    return lambda states: projection.fused_token_losses(labels, states, 0.1)[0]


def feed_forward(activation):
    def layer_of(dtype):
        layer = FeedForward(6, 13, activation=activation, dtype=dtype)
        layer.build((None, None, 6))
        return layer

    return layer_of


@pytest.fixture(
    params=[fused_loss, feed_forward("swish"), feed_forward("quick_gelu")],
    ids=["fused_loss", "swish", "quick_gelu"],
)
def make(request):
    return request.param


def states_of(dtype):
    return tf.constant(np.random.default_rng(1).normal(size=(5, 6)), dtype)


def gradient(function, states):
    with tf.GradientTape() as tape:
        tape.watch(states)
        total = tf.reduce_sum(tf.cast(function(states), tf.float32))
    return tape.gradient(total, states)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradient_through_a_graph_equals_eager_gradient(make, dtype):
    function, states = make(dtype), states_of(dtype)
    expected = gradient(function, states)
    graph = tf.function(function, autograph=False)
    gc.collect()
    # The tape outside: TensorFlow looks the gradient up after the graph was made.
    outside = gradient(graph, states)
    inside = tf.function(gradient, autograph=False)(function, states)
    atol = 1e-5 if dtype == "float32" else 0.1
    for found in (outside, inside):
        np.testing.assert_allclose(
            tf.cast(found, tf.float32), tf.cast(expected, tf.float32), atol=atol
        )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_graph_is_freed_with_its_function(make, dtype):
    function, states = make(dtype), states_of(dtype)
    step = tf.function(lambda x: gradient(function, x), autograph=False)
    step(states)
    graph = weakref.ref(step.get_concrete_function(states).graph)
    assert graph() is not None
    del step
    gc.collect()
    assert graph() is None


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
