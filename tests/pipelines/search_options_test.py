"""Precedence of search options: flags, the model's defaults, the flags' defaults."""

import sys

import pytest
from absl import flags
from absl.testing import flagsaver

from t2t_keras.config import PRESETS
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.flags import decoding


@pytest.fixture(autouse=True)
def parse_flags():
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["test"])


def test_given_flags_override_the_models_defaults():
    model_defaults = {"length_penalty": 1.4}
    assert decoding.search_options()["length_penalty"] == 0.6
    assert decoding.search_options(model_defaults)["length_penalty"] == 1.4
    assert decoding.search_options(model_defaults)["beam_size"] == 4
    with flagsaver.as_parsed(length_penalty="0.6", beam_size="2"):
        found = decoding.search_options(model_defaults)
    assert (found["length_penalty"], found["beam_size"]) == (0.6, 2)


def test_preset_search_options_are_valid_and_base_has_the_papers():
    for preset in PRESETS.values():
        SearchOptions(**decoding.search_options(preset.training.search))
    base_defaults = PRESETS["base"].training.search
    paper = SearchOptions(**decoding.search_options(base_defaults))
    assert (paper.beam_size, paper.length_penalty, paper.max_extra_length) == (
        4,
        0.6,
        50,
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
