"""Positional encodings, dropout and masks match hand-written values."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import (
    ConcatenatedSinusoidalPosition,
    Dropout,
    LearnedPosition,
    MarianSinusoidalPosition,
    SinusoidalPosition,
    causal_mask,
    padding_mask,
    sinusoidal_encoding,
)


def test_sinusoidal_encoding_interleaves_sine_and_cosine():
    encoding = sinusoidal_encoding(tf.range(3), 4)
    expected = [
        [0, 1, 0, 1],
        [0.841471, 0.540302, 0.0099998, 0.99995],
        [0.909297, -0.416147, 0.0199987, 0.9998],
    ]
    np.testing.assert_allclose(encoding, expected, atol=1e-6)


def test_sinusoidal_position_computes_in_float64_in_float64_layers():
    layer = SinusoidalPosition(64, dtype="float64")
    positions = [4096, 100_000]
    encoding = layer(tf.zeros([1, 2, 64], tf.float64), positions=positions)[0]
    angle = np.array(positions)[:, np.newaxis] / 10000 ** (np.arange(0, 64, 2) / 64)
    np.testing.assert_allclose(encoding[:, ::2], np.sin(angle), atol=1e-10)
    np.testing.assert_allclose(encoding[:, 1::2], np.cos(angle), atol=1e-10)


def by_hand(positions, d_model, frequencies):
    """Sines of all frequencies, their cosines, as many dimensions as there are."""
    angle = np.array(positions)[:, np.newaxis] * frequencies
    table = np.zeros([len(positions), d_model + 1])
    table[:, : 2 * len(frequencies)] = np.concatenate(
        [np.sin(angle), np.cos(angle)], axis=1
    )
    return table[:, :d_model]


@pytest.mark.parametrize("d_model", [1, 2, 3, 7, 16])
def test_concatenated_sinusoids_are_the_papers_in_another_order(d_model):
    layer = ConcatenatedSinusoidalPosition(d_model)
    positions = [0, 1, 2, 50, 511]
    encoding = layer.encoding(tf.constant(positions)).numpy()
    exponents = np.arange(0, d_model, 2) / d_model
    expected = by_hand(positions, d_model, 10000.0**-exponents)
    np.testing.assert_allclose(encoding, expected, atol=5e-5)
    papers = sinusoidal_encoding(tf.constant(positions), d_model).numpy()
    reordered = np.concatenate([papers[:, ::2], papers[:, 1::2]], axis=1)
    np.testing.assert_allclose(encoding, reordered, atol=1e-4)


@pytest.mark.parametrize("d_model", [1, 2, 3, 7, 16])
def test_marian_sinusoids_end_at_the_frequency_of_1_over_10000(d_model):
    layer = MarianSinusoidalPosition(d_model)
    positions = [0, 1, 2, 50, 511]
    encoding = layer.encoding(tf.constant(positions)).numpy()
    half = d_model // 2
    exponents = np.arange(half) / max(half - 1, 1)
    expected = by_hand(positions, d_model, 10000.0**-exponents)
    np.testing.assert_allclose(encoding, expected, atol=5e-5)
    if half > 1:
        np.testing.assert_allclose(encoding[4, half - 1], np.sin(0.0511), rtol=1e-5)
    if d_model % 2:
        assert not encoding[:, -1].any()


@pytest.mark.parametrize(
    "cls",
    [SinusoidalPosition, ConcatenatedSinusoidalPosition, MarianSinusoidalPosition],
)
@pytest.mark.parametrize("d_model", [5, 8])
def test_waves_are_the_formulas_of_the_dimensions(cls, d_model):
    layer = cls(d_model, dtype="float64")
    encoding = layer.encoding(tf.range(9)).numpy()
    for wave, column in zip(layer.waves(), encoding.T, strict=True):
        expected = np.zeros(9)
        if wave is not None:
            scale = 10000 ** (wave.numerator / wave.denominator)
            expected = getattr(np, wave.function)(np.arange(9) / scale)
        np.testing.assert_allclose(column, expected, atol=1e-12)


def test_encoding_uses_explicit_positions():
    layer = SinusoidalPosition(8)
    x = tf.zeros([1, 2, 8])
    whole = layer(tf.zeros([1, 9, 8]))
    np.testing.assert_allclose(
        layer(x, positions=tf.constant([7, 7]))[0], [whole[0, 7], whole[0, 7]]
    )


def test_learned_positions_beyond_max_length_share_the_last_vector():
    layer = LearnedPosition(4, max_length=3)
    output = layer(tf.zeros([1, 5, 4]))[0].numpy()
    np.testing.assert_array_equal(output[:3], layer.table.numpy())
    np.testing.assert_array_equal(output[3], output[2])
    np.testing.assert_array_equal(output[4], output[2])


def test_dropout_drops_the_given_fraction_and_scales_the_rest():
    layer = Dropout(0.3, seed=5)
    y = layer(tf.ones([1000, 101]), training=True).numpy()
    assert (y == 0).mean() == pytest.approx(0.3, abs=0.01)
    np.testing.assert_allclose(y[y != 0], 1 / 0.7, rtol=1e-6)
    assert layer(tf.ones([3]), training=False).numpy().tolist() == [1, 1, 1]


def kept_of_20_million(rate):
    """Returns the values that dropout keeps of 20 calls with a million ones each."""
    layer = Dropout(rate, seed=1)
    ones = tf.ones([1_000_000])
    outputs = (layer(ones, training=True).numpy() for _ in range(20))
    return np.concatenate([y[y != 0] for y in outputs])


@pytest.mark.parametrize("rate", [0.99, 0.999, 0.9999, 0.999995, 1 - 2**-20])
def test_dropout_keeps_the_right_fraction_at_rates_close_to_1(rate):
    kept = kept_of_20_million(rate)
    expected = 20_000_000 * (1 - rate)
    # Within five standard deviations.
    assert abs(len(kept) - expected) < 5 * expected**0.5
    np.testing.assert_allclose(kept, 1 / (1 - rate), rtol=1e-6)


def test_dropout_drops_the_right_fraction_at_rates_close_to_0():
    dropped = 20_000_000 - len(kept_of_20_million(1e-5))
    assert abs(dropped - 200) < 5 * 200**0.5


def test_dropout_rate_whose_scale_overflows_is_rejected():
    for dtype, rate in (("float16", 0.99999), ("mixed_float16", 1 - 1e-9)):
        with pytest.raises(
            ValueError, match=rf"65504, the maximum of float16.*rate={rate}"
        ):
            Dropout(rate, dtype=dtype)
    assert Dropout(0.9999, dtype="float16")(tf.ones([3]), training=True).shape == 3
    # The largest float below 1.
    tiny = np.nextafter(1.0, 0.0)
    assert not Dropout(tiny)(tf.ones([1000]), training=True).numpy().any()


def test_dropout_masks_depend_only_on_seed_and_call_counter():
    x = tf.ones([64])
    first, again, other = Dropout(0.5, 1), Dropout(0.5, 1), Dropout(0.5, 2)
    masks = [first(x, training=True).numpy() for _ in range(3)]
    assert not np.array_equal(masks[0], masks[1])
    assert not np.array_equal(masks[0], other(x, training=True).numpy())
    np.testing.assert_array_equal(masks[0], again(x, training=True))
    # A layer with a restored counter continues the sequence of masks.
    again.set_weights([np.array(2)])
    np.testing.assert_array_equal(masks[2], again(x, training=True))


def test_dropout_rate_of_1_is_rejected():
    with pytest.raises(ValueError, match="rate=1"):
        Dropout(1)


def test_padding_and_causal_masks_match_hand_written_values():
    np.testing.assert_array_equal(
        padding_mask(tf.constant([[5, 6, 0], [7, 0, 0]])),
        [[[[True, True, False]]], [[[True, False, False]]]],
    )
    np.testing.assert_array_equal(
        causal_mask(3),
        [[[[True, False, False], [True, True, False], [True, True, True]]]],
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
