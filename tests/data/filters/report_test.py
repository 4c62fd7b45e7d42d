"""Tests of the report of what filters removed."""

import json
import sys

import numpy as np
import pytest

from t2t_keras.data.filters import FilterReport


def report(pairs, *removed, first=0):
    sources = [f"source {first + i}" for i in range(pairs)]
    targets = [f"target {first + i}" for i in range(pairs)]
    made = FilterReport(pairs=pairs)
    for name, indices in removed:
        made.record(name, np.array(indices, int), sources, targets, first)
    return made


def test_reports_of_consecutive_parts_add_up():
    parts = [
        report(5, ("empty", [0, 4]), ("html_tag", []), first=0),
        report(3, ("empty", [0, 1]), ("html_tag", [2]), first=5),
        FilterReport(),
        report(4, ("empty", [3]), ("duplicate", [0]), first=8),
    ]
    whole = report(
        12,
        ("empty", [0, 4, 5, 6, 11]),
        ("html_tag", [7]),
        ("duplicate", [8]),
    )
    left = ((parts[0] + parts[1]) + parts[2]) + parts[3]
    right = parts[0] + (parts[1] + (parts[2] + parts[3]))
    assert left == right == whole
    assert list(left.removed) == ["empty", "html_tag", "duplicate"]
    assert (left.pairs, left.kept) == (12, 5)
    assert [example.number for example in left.examples["empty"]] == [0, 4, 5]


def test_report_survives_json():
    made = report(5, ("empty", [0, 4]), ("html_tag", []))
    assert FilterReport.from_dict(json.loads(json.dumps(made.to_dict()))) == made


def test_table_shows_counts_shares_and_examples():
    made = report(2000, ("empty", []), ("html_tag", [999]))
    made.record("script", np.array([0]), ["a\x1b[31m\tb"], ["Б"], first=5)
    assert made.table() == (
        "empty         0   0.00%\n"
        "html_tag      1   0.05%\n"
        "    1,000: source 999\n"
        "           target 999\n"
        "script        1   0.05%\n"
        "    6: a [31m b\n"
        "       Б\n"
        "kept      1,998  99.90%"
    )
    assert FilterReport().table() == "kept  0"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
