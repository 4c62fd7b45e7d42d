"""Tests of filters, duplicates and leaks over a whole corpus."""

import json
import random
import sys

import numpy as np
import pytest

from t2t_keras.config.filter_settings import FilterSettings
from t2t_keras.data import cleaning, preparation
from t2t_keras.data.cleaning_options import CleaningOptions
from t2t_keras.data.corpora import TextCorpus
from t2t_keras.data.filters import FilterReport
from t2t_keras.data.preparation import prepare
from t2t_keras.data.prepared_data import PreparedData
from t2t_keras.data.splits import open_examples
from t2t_keras.errors import UserError
from t2t_keras.tasks import LocalTaskRunner

WORDS = [*("the", "a", "small", "old", "house", "dog", "tree", "man", "is", "was")]
WORDS += [*("sees", "in", "on", "two", "three", "green")]
DEV = [("The old dog sees.", "DER  alte Hund sieht"), ("", "leer"), ("so", "So !")]


def words(rng, marker):
    return " ".join(rng.choices(WORDS, k=rng.randrange(1, 4))) + marker


def corpus_with_duplicates():
    """Returns 300 pairs, many of them with equal sides, and leaks of `DEV`."""
    rng = random.Random(0)
    pairs = [(words(rng, ""), words(rng, " x")) for _ in range(280)]
    leaks = [("the OLD dog sees", "y"), ("z", "so"), ("q", "der alte hund sieht!")]
    pairs += [*leaks, ("the house", ""), ("same", "Same"), *pairs[:15]]
    rng.shuffle(pairs)
    return pairs


@pytest.fixture
def prepare_text(tmp_path, monkeypatch):
    """Writes text and prepares it in blocks of 40 pairs and three ranges of keys."""
    monkeypatch.setattr(preparation, "_PAIRS_PER_BLOCK", 40)
    monkeypatch.setattr(cleaning, "_KEYS_PER_TASK", 100)

    def call(pairs, name, report=lambda message: None, **arguments):
        files = {}
        for split, text in (("train", pairs), ("dev", DEV)):
            for side, lines in zip("st", zip(*text, strict=True), strict=True):
                path = tmp_path / f"{name}.{split}.{side}"
                path.write_text("".join(f"{line}\n" for line in lines))
                files.setdefault(side, {})[split] = [str(path)]
        corpus = TextCorpus("en", "de", files["s"], files["t"])
        return prepare(
            corpus, tmp_path / name, vocab_size=60, report=report, **arguments
        )

    return call


def normalized(text):
    return "".join(c for c in text.casefold() if c.isalnum())


def first_of_each(pairs, key):
    seen = set()
    kept = []
    for pair in pairs:
        if key(pair) not in seen:
            seen.add(key(pair))
            kept.append(pair)
    return kept


@pytest.mark.parametrize(
    ("names", "key"),
    [
        (["duplicate_pair"], lambda pair: tuple(map(normalized, pair))),
        (["duplicate_source"], lambda pair: normalized(pair[0])),
        (["duplicate_target"], lambda pair: normalized(pair[1])),
    ],
)
def test_first_of_equal_pairs_is_kept(prepare_text, tmp_path, names, key):
    pairs = corpus_with_duplicates()
    manifest = prepare_text(pairs, "cleaned", cleaning=CleaningOptions(names))
    expected = first_of_each(pairs, key)
    assert 10 < len(expected) < len(pairs) - 10
    removed = manifest["filters"]["report"]["removed"]
    assert removed == {names[0]: len(pairs) - len(expected)}
    # The same data as if the other pairs had never been there.
    prepare_text(expected, "expected")
    cleaned, plain = (
        PreparedData(tmp_path / name).examples("train")
        for name in ("cleaned", "expected")
    )
    assert records(cleaned) == records(plain)


def records(examples):
    return examples.read(np.arange(len(examples)))


def test_leaks_of_held_out_text_are_removed_and_shown(prepare_text, tmp_path):
    pairs = corpus_with_duplicates()
    reported = []
    manifest = prepare_text(
        pairs,
        "data",
        cleaning=CleaningOptions(["held_out", "identical"]),
        report=reported.append,
    )
    report = FilterReport.from_dict(manifest["filters"]["report"])
    assert report.removed == {"identical": 1, "held_out": 3}
    assert {example.source for example in report.examples["held_out"]} == {
        *("the OLD dog sees", "z", "q")
    }
    for example in report.examples["held_out"]:
        assert pairs[example.number] == (example.source, example.target)
    assert report.pairs == len(pairs)
    assert report.kept == len(pairs) - 4
    assert any("held_out" in text and "q" in text for text in reported)
    # The dev split itself is not filtered.
    assert manifest["splits"]["dev"]["pairs"] == 2
    assert manifest["splits"]["dev"]["in_train"]["sources"] == 0


def test_exact_comparison_keeps_pairs_that_differ_in_case(prepare_text):
    pairs = [("A b", "c"), ("a b", "c"), ("a  b", "c"), ("d", "The old dog sees.")]
    for compare, expected in (("exact", 1), ("normalized", 2)):
        manifest = prepare_text(
            pairs,
            compare,
            cleaning=CleaningOptions(
                ["duplicate_pair"], settings=FilterSettings(compare=compare)
            ),
        )
        removed = manifest["filters"]["report"]["removed"]
        assert removed == {"duplicate_pair": expected}


def test_number_of_processes_does_not_change_what_is_removed(prepare_text, tmp_path):
    pairs = corpus_with_duplicates()
    for name, processes in (("one", 1), ("two", 2)):
        prepare_text(
            pairs,
            name,
            cleaning=CleaningOptions(["basic"]),
            runner=LocalTaskRunner(processes),
            corpus_arguments={"corpus": "same"},
        )
    one, two = tmp_path / "one", tmp_path / "two"
    files = sorted(path.relative_to(one) for path in one.rglob("*.*"))
    assert files
    for file in files:
        assert (one / file).read_bytes() == (two / file).read_bytes(), file


def test_manifest_names_filters_and_thresholds(prepare_text, tmp_path):
    settings = FilterSettings(max_words=7)
    manifest = prepare_text(
        corpus_with_duplicates(),
        "data",
        cleaning=CleaningOptions(["length"], settings=settings),
    )
    assert manifest["filters"]["names"] == ["length"]
    assert manifest["filters"]["settings"]["max_words"] == 7
    stored = json.loads((tmp_path / "data" / "manifest.json").read_text())
    assert stored == manifest
    with pytest.raises(UserError, match="prepared with --filters"):
        open_examples(PreparedData(tmp_path / "data"), "train", from_text=True)


def test_filters_that_remove_everything_are_an_error(prepare_text, tmp_path):
    with pytest.raises(UserError, match="filters removed all training pairs"):
        prepare_text([("a", "a")] * 5, "data", cleaning=CleaningOptions(["identical"]))
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"user_filter": "no_such_module:keep"}, "cannot import no_such_module"),
        ({"filters": ["urls"]}, "There is no filter 'urls'"),
    ],
)
def test_wrong_filters_are_reported_before_the_corpus_is_read(
    tmp_path, arguments, message
):
    corpus = TextCorpus("en", "de", {"train": ["absent.en"]}, {"train": ["absent.de"]})
    with pytest.raises(UserError, match=message):
        prepare(corpus, tmp_path / "data", cleaning=CleaningOptions(**arguments))
    assert not (tmp_path / "data").exists()


def write_scores(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def test_pairs_with_low_scores_are_removed(prepare_text, tmp_path):
    pairs = [(f"word {i}", f"Wort {i}") for i in range(90)]
    # Lines of t2t-score and plain numbers; blocks have 40 pairs.
    lines = [f"{-2.0 * (i % 5):.4f}\t{-2.0 * (i % 5):.4f} 0.0" for i in range(85)]
    lines += ["-2", "-2.01", "\t\tempty", "3e-1", "-inf"]
    files = [
        write_scores(tmp_path / "one.txt", lines[:50]),
        write_scores(tmp_path / "two.txt", lines[50:]),
    ]
    manifest = prepare_text(
        pairs,
        "scored",
        cleaning=CleaningOptions(score_files=tuple(files), min_score=-2),
    )
    kept = [pair for i, pair in enumerate(pairs[:85]) if i % 5 <= 2]
    kept += [pairs[85], pairs[88]]
    report = FilterReport.from_dict(manifest["filters"]["report"])
    assert report.removed == {"score": 90 - len(kept)}
    assert [example.number for example in report.examples["score"]] == [3, 4, 8]
    prepare_text(kept, "expected")
    scored, expected = (
        PreparedData(tmp_path / name).examples("train")
        for name in ("scored", "expected")
    )
    assert records(scored) == records(expected)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["1"] * 44, r"score for each of the 45 training pairs. Received: 44 scores"),
        (["1"] * 46, r"each of the 45 training pairs. Received: more scores"),
        ([*["1"] * 41, "high", "1"], r"scores.txt:42: expected a number .*'high'"),
        (["1\ttwo"] * 45, r"scores.txt:1: expected a number or a line of t2t-score"),
    ],
)
def test_invalid_scores_are_named(prepare_text, tmp_path, lines, message):
    file = write_scores(tmp_path / "scores.txt", lines)
    options = CleaningOptions(score_files=(file,), min_score=0.0)
    with pytest.raises(UserError, match=message):
        prepare_text([("a", "b")] * 45, "data", cleaning=options)
    assert not (tmp_path / "data").exists()


def test_scores_and_their_minimum_need_each_other():
    for arguments in ({"score_files": ("x",)}, {"min_score": 0.0}):
        with pytest.raises(UserError, match="need each other"):
            CleaningOptions(**arguments)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
