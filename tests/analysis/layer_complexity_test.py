"""Tests of layer timing, of its exponents and crossovers, and of the plot."""

import re
import sys

import pytest
import tensorflow as tf

from t2t_keras.analysis.complexity_plot import draw_complexity
from t2t_keras.analysis.layer_complexity import (
    LAYERS,
    Measurement,
    crossover,
    exponent,
    measure,
)


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_keeps_the_shape_of_a_sequence(name):
    layer = LAYERS[name].make(16, 4, 3)
    assert layer(tf.ones([2, 9, 16])).shape == (2, 9, 16)


@pytest.mark.parametrize(
    ("name", "reach"), [("restricted", 2), ("convolution", 2), ("self-attention", 20)]
)
def test_window_and_kernel_determine_the_receptive_field(name, reach):
    layer = LAYERS[name].make(8, 4, 5)
    x = tf.random.stateless_normal([1, 21, 8], [0, 1])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)[0, 0]
    moved = tf.reduce_any(tape.gradient(y, x)[0] != 0, axis=1).numpy()
    assert [*moved] == [True] * (reach + 1) + [False] * (20 - reach)


def test_measure_covers_every_layer_length_and_size():
    found = list(measure([4, 6], [8, 16], window=2, repeats=1))
    assert [(m.d, m.n, m.layer) for m in found] == [
        (d, n, name) for d in (8, 16) for n in (4, 6) for name in LAYERS
    ]
    assert all(m.forward_seconds > 0 and m.training_seconds > 0 for m in found)
    with pytest.raises(ValueError, match="multiples of 8"):
        next(measure([4, 6], [8, 12]))


def test_exponent_uses_the_two_largest_lengths():
    lengths = [1, 10, 20]
    assert exponent(lengths, [7, 3 * 10**2, 3 * 20**2]) == pytest.approx(2)
    assert exponent(lengths, [1, 5, 10]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("one", "other", "length"),
    [
        # n^2 and 30 n cross at 30, which is not among the lengths.
        ([100, 400, 1600, 6400], [300, 600, 1200, 2400], 30),
        ([1, 2, 3, 4], [5, 6, 7, 8], None),
        ([1, 2, 3, 4], [1, 2, 3, 4], None),
        ([5, 6, 7, 8], [1, 2, 3, 4], 10),
        # Slower at first, faster in between: the last crossing counts.
        ([4, 1, 4, 16], [1, 4, 1, 1], 20 * 2**0.5),
        ([1, 4, 4, 1], [2, 2, 2, 2], None),
    ],
)
def test_crossover_is_the_last_crossing(one, other, length):
    found = crossover([10, 20, 40, 80], one, other)
    assert found == (length and pytest.approx(length))


def test_plot_has_a_panel_per_size_and_a_crossover_panel(tmp_path):
    milliseconds = {
        "self-attention": lambda n, d: n * n * d,
        "restricted": lambda n, d: 16 * n * d,
        "LSTM": lambda n, d: n * d * d,
        "GRU": lambda n, d: n * d * d / 2,
        "convolution": lambda n, d: 1e9,
    }
    measurements = [
        Measurement(name, n, d, 0.0, take(n, d))
        for name, take in milliseconds.items()
        for d in (32, 64, 1024)
        for n in (16, 32, 64, 128)
    ]
    draw_complexity(measurements, [tmp_path / "a.svg", tmp_path / "a.png"])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    # Matplotlib writes the text of an SVG as comments next to its glyphs.
    texts = re.findall("<!-- (.*?) -->", (tmp_path / "a.svg").read_text())
    for text in ("d = 32", "d = 64", "d = 1,024", "self-attention, O(n² d)"):
        assert texts.count(text) == 1
    # The line is drawn only if d is within the lengths.
    assert texts.count("n = d") == 2


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
