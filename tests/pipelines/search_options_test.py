"""Options of the search: flags, the model's own defaults, the flags' defaults."""

import sys

import pytest
from absl import flags
from absl.testing import flagsaver

from t2t_keras.config import PRESETS
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.flags import decoding


@pytest.fixture(autouse=True)
def parsed():
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["test"])


def test_a_models_own_defaults_give_way_to_flags_that_are_given():
    of_model = {"length_penalty": 1.4}
    assert decoding.search_options()["length_penalty"] == 0.6
    assert decoding.search_options(of_model)["length_penalty"] == 1.4
    assert decoding.search_options(of_model)["beam_size"] == 4
    with flagsaver.as_parsed(length_penalty="0.6", beam_size="2"):
        found = decoding.search_options(of_model)
    assert (found["length_penalty"], found["beam_size"]) == (0.6, 2)


def test_search_options_of_presets_are_valid_and_others_are_the_papers():
    for preset in PRESETS.values():
        SearchOptions(**decoding.search_options(preset.training.search))
    of_base = PRESETS["base"].training.search
    paper = SearchOptions(**decoding.search_options(of_base))
    assert (paper.beam_size, paper.length_penalty, paper.max_extra_length) == (
        4,
        0.6,
        50,
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
