"""Tests that nouns in messages agree with their numbers."""

import sys

import pytest

from t2t_keras.data.train_test_overlap import Overlap, matching_hashes
from t2t_keras.decoding import translation_status
from t2t_keras.pipelines.command_line.outcomes import Outcomes
from t2t_keras.plurals import counted


def test_noun_agrees_with_its_number():
    assert [counted(number, "line") for number in (0, 1, 2, 3000)] == [
        *("0 lines", "1 line", "2 lines", "3,000 lines")
    ]
    assert counted(1, "hypothesis", "hypotheses") == "1 hypothesis"
    assert counted(2, "line was", "lines were") == "2 lines were"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1, "1 line was longer than 9 tokens: cut and translated."),
        (2, "2 lines were longer than 9 tokens: cut and translated."),
    ],
)
def test_messages_about_lines_agree_with_the_number(number, expected, capsys):
    outcomes = Outcomes("file", "translated", "9 tokens")
    outcomes.add([translation_status.TOO_LONG] * number)
    assert outcomes.report() == 0
    assert capsys.readouterr().err == f"{expected}\n"


def test_messages_about_overlap_agree_with_the_number():
    overlap = Overlap()
    overlap.add("dev", [(["a"], ["b"])])
    overlap.record(matching_hashes(overlap.sources, ["c", "a"], ["d", "b"]))
    told = "dev: of 1 pair, 1 also occurs in train, and 1 source sentence does. "
    assert overlap.note("dev").startswith(told)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
