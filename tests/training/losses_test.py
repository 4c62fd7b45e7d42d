"""Tests of losses and metrics against explicit target distributions."""

import math
import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.layers.output_projection import OutputProjection
from t2t_keras.training.losses import LabelSmoothedCrossEntropy, token_losses
from t2t_keras.training.metrics import token_metrics, token_sums


def smoothed_by_hand(labels, logits, smoothing):
    """Returns the smoothed target distribution, which the library never builds."""
    logits = np.asarray(logits, np.float64)
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    vocab = logits.shape[1]
    target = np.full_like(logits, smoothing / vocab)
    target[np.arange(len(labels)), labels] += 1 - smoothing
    return -(target * log_p).sum(1), -log_p[np.arange(len(labels)), labels]


def test_loss_matches_hand_computed_value():
    # p = (1/4, 3/4): nll = ln 4; smoothed = 0.9 ln 4 + 0.05 (ln 4 + ln 4/3)
    smoothed, nll = token_losses(
        tf.constant([0]), tf.constant([[0.0, math.log(3)]]), 0.1
    )
    assert float(nll[0]) == pytest.approx(math.log(4))
    expected = 0.95 * math.log(4) + 0.05 * math.log(4 / 3)
    assert float(smoothed[0]) == pytest.approx(expected)


def test_losses_equal_cross_entropy_with_smoothed_target():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(7, 11)) * 3, rng.integers(0, 11, 7)
    smoothed, nll = token_losses(
        tf.constant(labels), tf.constant(logits, tf.float32), 0.2
    )
    expected, expected_nll = smoothed_by_hand(labels, logits, 0.2)
    np.testing.assert_allclose(smoothed, expected, atol=1e-5)
    np.testing.assert_allclose(nll, expected_nll, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [False, True])
def test_fused_loss_equals_loss_of_logits_in_value_and_gradient(with_bias, smoothing):
    rng = np.random.default_rng(1)
    states = tf.constant(rng.normal(size=(9, 6)))
    table = tf.constant(rng.normal(size=(13, 6)))
    bias = tf.constant(rng.normal(size=13) * 3) if with_bias else None
    labels = tf.constant(rng.integers(0, 13, 9))
    weights = tf.constant(rng.random(9))
    inputs = [states, table, bias] if with_bias else [states, table]

    def plain(projection):
        logits = projection.logits(states)
        correct = tf.argmax(logits, axis=1) == labels
        return *token_losses(labels, logits, smoothing), correct

    def fused(projection):
        return projection.fused_token_losses(labels, states, smoothing)

    results = []
    for function in (plain, fused):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(inputs)
            smoothed, nll, correct = function(OutputProjection(table, bias))
            total = tf.reduce_sum(smoothed * weights)
            total_nll = tf.reduce_sum(nll * weights)
        gradients = [*tape.gradient(total, inputs), *tape.gradient(total_nll, inputs)]
        results.append([smoothed, nll, correct, *map(tf.convert_to_tensor, gradients)])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    assert np.abs(results[0][5]).max() > 0.01


def test_output_projection_is_states_times_matrix_plus_bias():
    rng = np.random.default_rng(2)
    states, table, bias = (rng.normal(size=size) for size in ((2, 3, 6), (13, 6), 13))
    projection = OutputProjection(tf.constant(table), tf.constant(bias))
    logits = projection.logits(tf.constant(states))
    np.testing.assert_allclose(logits, states @ table.T + bias, atol=1e-12)


def test_fused_loss_requires_one_label_per_state():
    projection = OutputProjection(tf.ones([13, 6]))
    for labels, states in (
        (tf.constant([4]), tf.ones([9, 6])),
        (tf.range(9), tf.ones([1, 6])),
    ):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=r"hape"):
            projection.fused_token_losses(labels, states, 0.1)


def fused_losses(labels, states, table, smoothing):
    return OutputProjection(table).fused_token_losses(labels, states, smoothing)


def low_precision_gradients(function, dtype, bias):
    """Returns the gradients of states, matrix and bias for 500 confident tokens."""
    rng = np.random.default_rng(4)
    table = rng.normal(size=(200, 32)).astype(np.float32) * 32**-0.5
    labels = rng.integers(0, 200, 500)
    states = tf.cast(rng.normal(size=(500, 32)) * 0.5 + table[labels] * 8, dtype)
    projection = OutputProjection(tf.Variable(table), tf.Variable(bias))
    inputs = [states, projection.matrix, projection.bias]
    with tf.GradientTape() as tape:
        tape.watch(states)
        total = tf.reduce_sum(function(projection, tf.constant(labels), states))
    return [
        tf.cast(tf.convert_to_tensor(gradient), tf.float32).numpy()
        for gradient in tape.gradient(total, inputs)
    ]


def test_fused_gradient_with_a_bias_is_accurate_in_bfloat16():
    bias = np.random.default_rng(5).normal(size=200).astype(np.float32)

    def plain(projection, labels, states):
        return token_losses(labels, projection.logits(states), 0.1)[0]

    def fused(projection, labels, states):
        return projection.fused_token_losses(labels, states, 0.1)[0]

    exact = low_precision_gradients(plain, tf.float32, bias)
    errors = [
        [
            np.linalg.norm(one - other) / np.linalg.norm(other)
            for one, other in zip(
                low_precision_gradients(function, tf.bfloat16, bias), exact, strict=True
            )
        ]
        for function in (fused, plain)
    ]
    for of_fused, of_plain in zip(*errors, strict=True):
        assert of_fused < 1.1 * of_plain + 1e-4


def test_low_precision_accumulates_repeated_tokens():
    rng = np.random.default_rng(3)
    table = tf.Variable(rng.normal(size=(50, 8)).astype(np.float32))
    states = tf.constant(rng.normal(size=(4000, 8)), tf.float32)
    labels = tf.fill([4000], 7)
    gradients = []
    for dtype in (tf.float32, tf.bfloat16):
        with tf.GradientTape() as tape:
            smoothed, nll, _ = fused_losses(labels, tf.cast(states, dtype), table, 0.1)
            total = tf.reduce_sum(smoothed)
        assert float(tf.reduce_min(nll)) >= 0
        gradients.append(tf.convert_to_tensor(tape.gradient(total, table)).numpy())
    error = np.abs(gradients[0] - gradients[1]).max() / np.abs(gradients[0]).max()
    assert error < 0.02


def relative_gradient_errors(function, labels, states, table, smoothing, dtype):
    """Compares the gradients of states and matrix with those in float64."""
    states, table = (
        tf.cast(tf.cast(x, dtype), tf.float32).numpy() for x in (states, table)
    )
    logits = states.astype(np.float64) @ table.T.astype(np.float64)
    difference = np.exp(logits - logits.max(1, keepdims=True))
    difference /= difference.sum(1, keepdims=True)
    difference -= smoothing / len(table)
    difference[np.arange(len(labels)), labels] -= 1 - smoothing
    expected = [difference @ table, difference.T @ states]
    low = tf.cast(states, dtype)
    variable = tf.Variable(table)
    with tf.GradientTape() as tape:
        tape.watch(low)
        total = tf.reduce_sum(function(labels, low, variable, smoothing)[0])
    found = tape.gradient(total, [low, variable])
    found = [tf.cast(tf.convert_to_tensor(g), tf.float64).numpy() for g in found]
    return [
        np.linalg.norm(one - other) / np.linalg.norm(other)
        for one, other in zip(found, expected, strict=True)
    ]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_fused_gradient_is_as_accurate_as_unfused_in_low_precision(dtype, smoothing):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(1000, 128)) * 128**-0.5
    labels = rng.integers(0, 1000, 256).astype(np.int32)

    def plain(labels, states, table, smoothing):
        logits = tf.matmul(states, tf.cast(table, states.dtype), transpose_b=True)
        return token_losses(labels, logits, smoothing)

    # From an untrained model to a probability of 0.9999 for the reference token.
    for confidence in (0, 8, 12, 16):
        states = rng.normal(size=(256, 128)) * 0.5 + table[labels] * confidence
        data = labels, states, table, smoothing, dtype
        errors = relative_gradient_errors(fused_losses, *data)
        for error, of_plain in zip(
            errors, relative_gradient_errors(plain, *data), strict=True
        ):
            assert error < 1.1 * of_plain + 1e-4


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_gradient_of_fused_nll_equals_gradient_of_unsmoothed_loss(dtype):
    rng = np.random.default_rng(1)
    states = tf.cast(rng.normal(size=(9, 6)), dtype)
    table = tf.constant(rng.normal(size=(13, 6)), tf.float32)
    labels = tf.constant(rng.integers(0, 13, 9))
    gradients = []
    for smoothing, output in ((0.0, 0), (0.1, 1)):
        with tf.GradientTape() as tape:
            tape.watch([states, table])
            outputs = fused_losses(labels, states, table, smoothing)
            total = tf.reduce_sum(outputs[output])
        gradients.append(tape.gradient(total, [states, table]))
    for one, other in zip(*gradients, strict=True):
        one, other = (
            tf.cast(tf.convert_to_tensor(g), tf.float32) for g in (one, other)
        )
        np.testing.assert_allclose(
            one, other, atol=1e-6 if dtype == "float32" else 0.02
        )


def test_fused_loss_is_finite_for_very_improbable_token():
    states = tf.constant([[100.0, 0.0]])
    table = tf.constant([[1.0, 0.0], [-1.0, 0.0]])
    smoothed, nll, correct = fused_losses(tf.constant([1]), states, table, 0.0)
    assert float(nll[0]) == pytest.approx(200, rel=1e-5) == float(smoothed[0])
    assert not correct[0]


def test_padding_is_excluded_from_mean():
    loss = LabelSmoothedCrossEntropy(0.1)
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(2, 3, 5)).astype(np.float32)
    labels = np.array([[4, 2, 0], [3, 0, 0]])
    expected, _ = smoothed_by_hand(
        np.array([4, 2, 3]), logits[[0, 0, 1], [0, 1, 0]], 0.1
    )
    assert float(loss(labels, logits)) == pytest.approx(expected.mean(), rel=1e-5)
    weights = np.array([[1, 0, 1], [3, 1, 1]], np.float32)
    weighted = (expected[0] + 3 * expected[2]) / 4
    assert float(loss(labels, logits, weights)) == pytest.approx(weighted, rel=1e-5)
    again = LabelSmoothedCrossEntropy.from_config(loss.get_config())
    assert float(again(labels, logits)) == float(loss(labels, logits))


def test_logits_and_labels_of_different_shapes_are_rejected():
    loss = LabelSmoothedCrossEntropy()
    labels, logits = tf.ones([2, 6], tf.int32), tf.zeros([3, 4, 9])
    with pytest.raises(ValueError, match=r"y_true \(2, 6\), y_pred \(3, 4, 9\)"):
        loss(labels, logits)
    unknown = tf.function(
        loss,
        input_signature=[
            tf.TensorSpec([None, None], tf.int32),
            tf.TensorSpec([None, None, 9], tf.float32),
        ],
    )
    with pytest.raises(tf.errors.InvalidArgumentError):
        unknown(labels, logits)
    assert np.isfinite(unknown(labels, tf.zeros([2, 6, 9])))


def test_sample_weight_of_shape_batch_applies_to_all_tokens():
    loss = LabelSmoothedCrossEntropy(0.1)
    rng = np.random.default_rng(2)
    weights = np.array([1.0, 0.0, 5.0])
    for length in (3, 4):  # Equal to the batch size, and not.
        logits = rng.normal(size=(3, length, 5)).astype(np.float32)
        labels = rng.integers(0, 5, (3, length))
        of_each = np.repeat(weights[:, np.newaxis], length, axis=1)
        expected = float(loss(labels, logits, of_each))
        for form in (weights, weights[:, np.newaxis], weights.astype(np.int64)):
            assert float(loss(labels, logits, form)) == pytest.approx(expected)
        scalar = loss(labels, logits, 2.0), loss(labels, logits, np.ones((1, length)))
        assert float(scalar[0]) == pytest.approx(float(scalar[1]))

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, None], tf.int32),
                tf.TensorSpec([None, None, 5]),
                tf.TensorSpec(None),
            ]
        )
        def unknown(labels, logits, weights):
            return loss(labels, logits, weights)

        for form in (weights, of_each):
            assert float(unknown(labels, logits, form)) == pytest.approx(expected)
        with pytest.raises(tf.errors.InvalidArgumentError):
            unknown(labels, logits, weights[:2])
    for shape in ((2,), (3, 2), (3, 4, 1), (1, 3, 4)):
        with pytest.raises(ValueError, match=r"\[batch\] or \[batch, target\]"):
            loss(labels, logits, np.ones(shape))


def test_label_smoothing_outside_0_to_1_is_rejected():
    with pytest.raises(ValueError, match=r"1\.5"):
        LabelSmoothedCrossEntropy(1.5)


def test_metrics_are_means_over_non_padding_target_tokens():
    sums = token_sums(
        source=tf.constant([[5, 2, 0], [6, 7, 2]]),
        labels=tf.constant([4, 2, 3, 0]),
        smoothed=tf.constant([1.0, 2.0, 3.0, 99.0]),
        nll=tf.constant([0.5, 1.0, 1.5, 99.0]),
        correct=tf.constant([True, False, True, True]),
    )
    metrics = token_metrics((sums + sums).numpy())
    assert metrics == pytest.approx(
        {
            "loss": 2.0,
            "nll": 1.0,
            "perplexity": math.e,
            "accuracy": 2 / 3,
            "tokens": 16,
            "non_padding": 8 / 10,
        }
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
