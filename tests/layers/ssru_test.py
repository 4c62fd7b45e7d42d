"""The SSRU against its recurrence, computed step by step."""

import gc
import sys

import numpy as np
import pytest
import reference
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

from t2t_keras import SSRU
from t2t_keras.layers.linear_recurrence import linear_recurrence

SIZE = 6


def random(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def ssru(dtype="float32"):
    layer = SSRU(SIZE, dtype=dtype)
    layer.build()
    layer.forget_gate.bias.assign(random(SIZE, 5))
    return layer


def step_by_step(decay, inputs):
    """Computes the recurrence by its definition, one position after the other."""
    state, states = tf.zeros_like(inputs[:, 0]), []
    for t in range(inputs.shape[1]):
        state = decay[:, t] * state + inputs[:, t]
        states.append(state)
    return tf.stack(states, axis=1)


def values_and_gradients(function, decay, inputs, weights):
    with tf.GradientTape() as tape:
        tape.watch([decay, inputs])
        outputs = function(decay, inputs)
        loss = tf.reduce_sum(weights * outputs)
    return [outputs, *tape.gradient(loss, [decay, inputs])]


@pytest.mark.parametrize("length", [1, 2, 5, 8, 33])
@pytest.mark.parametrize("mode", ["eager", "graph", "xla"])
def test_parallel_recurrence_and_gradient_match_step_by_step(length, mode):
    shape = (2, length, SIZE)
    decay = tf.sigmoid(2 * random(shape))
    inputs, weights = tf.constant(random(shape, 1)), random(shape, 2)

    def parallel(decay, inputs):
        return values_and_gradients(linear_recurrence, decay, inputs, weights)

    if mode != "eager":
        parallel = tf.function(parallel, autograph=False, jit_compile=mode == "xla")
    expected = values_and_gradients(step_by_step, decay, inputs, weights)
    for one, other in zip(parallel(decay, inputs), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_recurrence_of_no_position_is_empty():
    empty = tf.zeros([2, 0, SIZE])
    assert linear_recurrence(empty, empty).shape == (2, 0, SIZE)


def test_recurrence_keeps_no_training_graph_alive():
    decay, inputs = tf.fill([1, 3, SIZE], 0.5), tf.ones([1, 3, SIZE])

    def alive():
        def gradients(decay, inputs):
            return values_and_gradients(linear_recurrence, decay, inputs, 1.0)

        tf.function(gradients, autograph=False)(decay, inputs)
        gc.collect()
        return sum(isinstance(each, FuncGraph) for each in gc.get_objects())

    before = alive()
    assert alive() <= before


def test_ssru_matches_the_equations():
    layer, x = ssru(), random((2, 7, SIZE))
    expected = reference.ssru(reference.weights_of(layer), x)
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float64", 1e-12), ("float32", 1e-5), ("mixed_bfloat16", 1e-5)],
)
def test_gradients_of_ssru_match_step_by_step(dtype, tolerance, monkeypatch):
    layer, x = ssru(dtype), random((2, 9, SIZE))

    def gradients():
        with tf.GradientTape() as tape:
            output = tf.cast(layer(x), tf.float64)
            loss = tf.reduce_sum(tf.square(output))
        variables = [variable.value for variable in layer.trainable_variables]
        found = tape.gradient(loss, variables)
        return [output, *(tf.cast(gradient, tf.float64) for gradient in found)]

    found = gradients()
    monkeypatch.setattr("t2t_keras.layers.ssru.linear_recurrence", step_by_step)
    for one, other in zip(found, gradients(), strict=True):
        # In mixed precision, both differ by the rounding of the compute dtype only
        # where they round differently.
        scale = np.abs(other).max()
        np.testing.assert_allclose(one / scale, other / scale, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64", "mixed_bfloat16"])
def test_cached_steps_match_the_whole_sequence(dtype):
    layer, x = ssru(dtype), random((3, 8, SIZE))
    expected = layer(x, return_state=True)
    state = layer.empty_cache(3)
    for part in (slice(0, 1), slice(1, 4), slice(4, 4), slice(4, 8)):
        result = layer(x[:, part], cache=state)
        state = result.state
        np.testing.assert_allclose(
            tf.cast(result.output, tf.float32),
            tf.cast(expected.output[:, part], tf.float32),
            atol=1e-6,
        )
    np.testing.assert_allclose(
        layer._from_cache(state), layer._from_cache(expected.state), atol=1e-6
    )


def test_mixed_precision_keeps_a_float32_state():
    layer = ssru("mixed_bfloat16")
    layer.forget_gate.bias.assign([9.0] * SIZE)  # The state changes by 0.01% a step.
    x = np.repeat(random((1, 1, SIZE)), 200, axis=1)
    state, expected = layer.empty_cache(1), layer(x)
    for step in range(200):
        output, state = layer(x[:, step : step + 1], cache=state)
    assert np.abs(np.asarray(expected[:, -1], np.float32)).max() > 0.01
    np.testing.assert_allclose(
        tf.cast(output[:, 0], tf.float32),
        tf.cast(expected[:, -1], tf.float32),
        rtol=1e-2,
    )


def test_beams_are_sequences_of_their_own_and_follow_their_parents():
    layer = ssru()
    x = random((2, 3, 4, SIZE))  # [batch, beams, steps, d_model]
    parents = [[[0, 1, 2], [2, 1, 0]], [[1, 1, 0], [0, 2, 2]], [[2, 2, 2], [1, 0, 1]]]
    state = layer.empty_cache(2, beams=3)
    history = np.zeros((2, 3, 0, SIZE), np.float32)
    for step in range(4):
        history = np.concatenate([history, x[:, :, step : step + 1]], axis=2)
        output, state = layer(x[:, :, step], cache=state)
        for beam in range(3):
            expected = layer(history[:, beam])[:, -1]
            np.testing.assert_allclose(output[:, beam], expected, atol=1e-5)
        if step < 3:
            state = layer.reorder(state, tf.constant(parents[step]))
            history = np.stack(
                [row[kept] for row, kept in zip(history, parents[step], strict=True)]
            )


@pytest.mark.parametrize(
    ("x", "beams", "message"),
    [
        ((2, 3, SIZE + 1), 1, r"x must have shape"),
        ((3, 3, SIZE), 3, r"cache must have shape \[3"),
        ((2, 4, SIZE), 3, r"cache must have shape \[2, 4"),
    ],
)
def test_wrong_shapes_are_rejected(x, beams, message):
    layer = ssru()
    with pytest.raises(ValueError, match=message):
        layer(tf.zeros(x), cache=layer.empty_cache(2, beams))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
