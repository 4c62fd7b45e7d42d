"""Tests of the flags of the filters."""

import sys

import pytest
from absl.testing import flagsaver

from t2t_keras.config.filter_settings import FILTER_PRESETS, FilterSettings
from t2t_keras.errors import UserError
from t2t_keras.flags import filters


@pytest.fixture(autouse=True)
def parsed():
    with flagsaver.flagsaver():
        filters.FLAGS.mark_as_parsed()
        yield


def test_default_is_no_filter_with_the_default_thresholds():
    assert filters.cleaning_arguments() == {
        "filters": (),
        "settings": FilterSettings(),
        "user_filter": None,
        "score_files": (),
        "min_score": None,
    }


def test_flags_select_filters_and_thresholds():
    with flagsaver.flagsaver(filters=["url", "length"], max_words=7):
        arguments = filters.cleaning_arguments()
    assert arguments["filters"] == ("length", "url")
    assert arguments["settings"] == FilterSettings(max_words=7)
    with flagsaver.flagsaver(filters=["basic"]):
        assert filters.cleaning_arguments()["filters"] == FILTER_PRESETS["basic"]


def test_wrong_flags_are_user_errors():
    with (
        flagsaver.flagsaver(filters=["length", "spam"]),
        pytest.raises(UserError, match="There is no filter 'spam'"),
    ):
        filters.cleaning_arguments()
    with (
        flagsaver.flagsaver(min_words=9, max_words=8),
        pytest.raises(UserError, match="min_words=9, max_words=8"),
    ):
        filters.cleaning_arguments()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
