"""Tests of making filters by name and applying them in order."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from t2t_keras.config.filter_settings import (
    FILTER_PRESETS,
    TEXT_FILTERS,
    FilterSettings,
    filter_names,
)
from t2t_keras.data.filters import (
    FilterReport,
    apply_filters,
    language_id,
    make_filters,
)
from t2t_keras.errors import UserError

PAIRS = [
    ("A house.", "Ein Haus."),
    ("", ""),
    ("Same", "same"),
    ("<b>A house.</b>", "Ein Haus."),
    ("one " * 9, "eins " * 9),
    ("A tree.", "Ein Baum."),
    ("", "Nichts."),
]


def pairs(number):
    """Returns sources and targets of pairs, most of which some filter rejects."""
    rng = np.random.default_rng(0)
    chosen = [PAIRS[i] for i in rng.integers(0, len(PAIRS), number)]
    return [list(side) for side in zip(*chosen, strict=True)]


def basic():
    return make_filters(["basic"], FilterSettings(), "en", "de")


def test_pairs_count_for_the_first_filter_that_rejects_them():
    sources, targets = zip(*PAIRS, strict=True)
    keep, report = apply_filters(basic(), sources, targets, first=100)
    assert keep.tolist() == [True, False, False, False, False, True, False]
    counts = {name: count for name, count in report.removed.items() if count}
    assert counts == {"empty": 2, "identical": 1, "html_tag": 1, "repetition": 1}
    names = [name for name in FILTER_PRESETS["basic"] if name in TEXT_FILTERS]
    assert list(report.removed) == names
    assert (report.pairs, report.kept) == (7, 2)
    assert [example.number for example in report.examples["empty"]] == [101, 106]
    (example,) = report.examples["html_tag"]
    assert (example.source, example.target) == PAIRS[3]


def test_result_does_not_depend_on_the_size_of_chunks(monkeypatch):
    sources, targets = pairs(9000)
    filters = basic()
    expected_keep, expected = apply_filters(filters, sources, targets)
    total, keeps = FilterReport(), []
    for start, end in ((0, 1), (1, 5000), (5000, 5000), (5000, 9000)):
        keep, report = apply_filters(
            filters, sources[start:end], targets[start:end], first=start
        )
        total, keeps = total + report, [*keeps, keep]
    np.testing.assert_array_equal(np.concatenate(keeps), expected_keep)
    assert total == expected
    monkeypatch.setattr("t2t_keras.data.filters.catalog._MAX_CHARS", 50)
    assert apply_filters(filters, sources, targets)[1] == expected


def test_long_lines_are_rejected_without_the_memory_of_all_of_them():
    sources, targets = ["x" * 3_000_000, "A house."], ["y", "Ein Haus."]
    keep, report = apply_filters(basic(), sources, targets)
    assert keep.tolist() == [False, True]
    assert report.removed["length"] == 1
    assert len(report.examples["length"][0].source) == 200


def test_pickled_filters_give_the_same_result():
    filters = basic()
    sources, targets = pairs(100)
    copies = pickle.loads(pickle.dumps(filters))
    assert len(pickle.dumps(filters)) < 10_000
    np.testing.assert_array_equal(
        apply_filters(copies, sources, targets)[0],
        apply_filters(filters, sources, targets)[0],
    )


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["none"], ()),
        ([], ()),
        (["recommended"], FILTER_PRESETS["recommended"]),
        (["url", "empty", "url"], ("empty", "url")),
    ],
)
def test_names_come_in_the_order_of_execution(names, expected):
    assert filter_names(names) == expected


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["langth"], "There is no filter 'langth'.*Filters: empty, length,"),
        (["basic", "url"], "basic is a preset and stands alone. Received: basic,url"),
        ([""], "There is no filter ''"),
    ],
)
def test_unknown_names_are_rejected(names, message):
    with pytest.raises(UserError, match=message):
        filter_names(names)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"min_words": 5, "max_words": 4}, "min_words must be at most max_words"),
        ({"min_chars": 5, "max_chars": 4}, "min_chars must be at most max_chars"),
        ({"max_word_ratio": 0.5}, "max_word_ratio must be a number of at least 1"),
        ({"min_script_share": 1.5}, "min_script_share must be a number from 0 to 1"),
    ],
)
def test_impossible_thresholds_are_rejected(values, message):
    with pytest.raises(UserError, match=message):
        FilterSettings(**values)


def test_unknown_language_is_reported_and_not_checked():
    notes = []
    names = ["character_score"]
    settings = FilterSettings()
    (created,) = make_filters(names, settings, "tlh", "ru", report=notes.append)
    assert notes == [
        "The filter character_score does not check the source side: it has no script "
        "for the language 'tlh'."
    ]
    assert created.keep(["Дом", "Дом"], ["Дом", "house"]).tolist() == [True, False]
    assert make_filters(names, settings, "tlh", "art", report=notes.append) == []


def test_missing_language_id_package_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    language_id._identifier.cache_clear()
    with pytest.raises(UserError, match=r"language_id needs .*t2t_keras\[langid\]"):
        make_filters(["recommended"], FilterSettings(), "en", "de")


def test_filters_do_not_import_tensorflow():
    program = (
        "import sys\n"
        "from t2t_keras.config.filter_settings import FilterSettings\n"
        "from t2t_keras.data.filters import apply_filters, keys, make_filters\n"
        "filters = make_filters(['basic'], FilterSettings(), 'en', 'de')\n"
        "apply_filters(filters, ['A house.'], ['Ein Haus.'])\n"
        "keys('pair', True, ['A house.'], ['Ein Haus.'])\n"
        "print(sorted({'tensorflow', 'keras', 'absl'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
