"""Flags of search options: defaults, limits and precedence."""

import dataclasses
import sys

import pytest
from absl import flags
from absl.testing import flagsaver

from t2t_keras.config import PRESETS
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.errors import UserError
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


def test_every_search_option_is_a_flag_with_its_default():
    assert SearchOptions(**decoding.search_options()) == SearchOptions()
    names = {*decoding.search_options(), "n_best"}
    assert names == {field.name for field in dataclasses.fields(SearchOptions)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "beam_size must be an integer from 1 to 10000. Received: 0"),
        ({"length_penalty": -1}, "length_penalty must be a number of at least 0. "),
        ({"n_best": 5}, "n_best must be at most beam_size. Received: n_best=5, "),
        (
            {"min_length": 9, "max_output_tokens": 8},
            "min_length must be at most max_output_tokens. Received: min_length=9, ",
        ),
        ({"no_repeat_ngram": 1}, "no_repeat_ngram must be 0 or at least 2. "),
        ({"temperature": 0.0}, "temperature must be positive. Received: 0.0"),
        ({"top_p": 1.5}, "top_p must be in (0, 1]. Received: 1.5"),
    ],
)
def test_invalid_search_option_is_named_with_its_value(options, message):
    with pytest.raises(UserError) as raised:
        SearchOptions(**options)
    assert str(raised.value).startswith(message)


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
