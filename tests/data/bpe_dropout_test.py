"""Tests of BPE dropout."""

import random
import sys

import command
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from t2t_keras.data import text_blocks
from t2t_keras.data.bpe_dropout import BpeDropout, Merges
from t2t_keras.data.corpora import Corpus
from t2t_keras.data.pair_filters import LengthFilter
from t2t_keras.data.preparation import prepare
from t2t_keras.data.prepared_data import PreparedData
from t2t_keras.data.subwords import SentencePieceTokenizer
from t2t_keras.data.tokenizer_pair import TokenizerPair

PAIRS = [(f"two hundred and {n} words", f"zweihundert{n} Wörter") for n in range(60)]
ODD = [
    "",
    " ",
    "日本 x日y",
    "日 日",
    "a\tb\x00\x00c",
    "2\u2581\u2581 3",
    "ﬁne Ü",
    "\u2581",
]


class Lines(Corpus):
    name, source_lang, target_lang = "lines", "en", "de"

    def splits(self):
        return ["train", "dev"]

    def read(self, split):
        yield from PAIRS[:50] if split == "train" else PAIRS[50:]


def prepared(directory, **arguments):
    manifest = prepare(
        Lines(), directory, vocab_size=120, report=lambda _: None, **arguments
    )
    return manifest, PreparedData(directory)


def pieces(data, split="train"):
    """Returns the source and target ids of every pair, without EOS."""
    found = data.examples(split)
    sides = found.parse(*found.fetch(np.arange(len(found))))
    return list(
        zip(*([ids[:-1] for ids in side.to_list()] for side in sides), strict=True)
    )


def texts(data, found):
    both = (data.tokenizers.source, data.tokenizers.target)
    return [
        tuple(
            tokenizer.detokenize(tf.ragged.constant([ids])).numpy()[0].decode()
            for tokenizer, ids in zip(both, pair, strict=True)
        )
        for pair in found
    ]


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train((line for pair in PAIRS for line in pair), 120)


@pytest.mark.parametrize("line", [*PAIRS[7], *ODD])
def test_zero_dropout_matches_sentencepiece(tokenizer, line):
    merges = Merges(tokenizer.model)
    found = merges.ids(merges.words(line), 0.0, random.Random(0).random)
    expected = tokenizer.tokenize(tf.constant([line])).to_list()[0]
    assert found == expected
    if line.isprintable():
        model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
        assert found == model.encode(line)


@pytest.mark.parametrize("length", [2, 3, 5])
def test_probability_of_whole_word_matches_algorithm_1(tokenizer, length):
    merges, draw = Merges(tokenizer.model), random.Random(0).random
    word = next(piece for piece in tokenizer.pieces()[4:] if len(piece) == length)
    assert len(merges.ids([word], 0.0, draw)) == 1
    expected = probability_of_whole_word(merges, list(word), 0.3)
    assert expected == pytest.approx(0.7) if length == 2 else expected < 0.7
    n = 4000
    whole = sum(len(merges.ids([word], 0.3, draw)) == 1 for _ in range(n)) / n
    assert whole == pytest.approx(expected, abs=0.03)


def probability_of_whole_word(merges, left, dropout):
    """Returns the probability that all pieces merge, over all skipped merges."""
    if len(left) == 1:
        return 1.0
    joined = [left[i] + left[i + 1] for i in range(len(left) - 1)]
    by_rank = sorted(
        (merges.ids([word], 0.0, lambda: 1.0)[0], i)
        for i, word in enumerate(joined)
        if len(merges.ids([word], 0.0, lambda: 1.0)) == 1
    )
    total, reached = 0.0, 1.0
    for _, i in by_rank:
        rest = [*left[:i], joined[i], *left[i + 2 :]]
        total += (
            reached * (1 - dropout) * probability_of_whole_word(merges, rest, dropout)
        )
        reached *= dropout
    return total


@pytest.mark.parametrize("share", [True, False])
def test_all_segmentations_detokenize_to_the_same_text(tmp_path, share, monkeypatch):
    monkeypatch.setattr(text_blocks, "CHUNK_LINES", 7)
    default_manifest, default = prepared(tmp_path / "default", share_vocabulary=share)
    manifest, data = prepared(
        tmp_path / "data", share_vocabulary=share, bpe_dropout=BpeDropout(0.2, 3)
    )
    assert manifest["bpe_dropout"]["dropout"] == 0.2
    assert manifest["splits"]["train"]["pairs"] == 150
    name = "vocabulary_fingerprint"
    assert manifest[name] == default_manifest[name]
    found = pieces(data)
    assert texts(data, found) == [pair for pair in PAIRS[:50] for _ in range(3)]
    for side in (0, 1):
        times = [[pair[side] for pair in found[i::3]] for i in range(3)]
        for one, other in (
            times[:2],
            times[1:],
            (times[0], [p[side] for p in pieces(default)]),
        ):
            assert sum(a != b for a, b in zip(one, other, strict=True)) > 15
    # Held-out text keeps the segmentation that is used for translation.
    assert pieces(data, "dev") == pieces(default, "dev")


@pytest.mark.parametrize(("sides", "kept"), [("source", 1), ("target", 0)])
def test_sides_restricts_dropout_to_one_side(tmp_path, sides, kept):
    _, default = prepared(tmp_path / "default")
    _, data = prepared(tmp_path / "data", bpe_dropout=BpeDropout(0.3, 1, sides))
    same = [
        [a[side] == b[side] for a, b in zip(pieces(data), pieces(default), strict=True)]
        for side in (0, 1)
    ]
    assert all(same[kept])
    assert sum(same[1 - kept]) < 25


def test_length_filter_uses_the_deterministic_segmentation(tmp_path):
    _, everything = prepared(tmp_path / "everything")
    longest = max(len(ids) for pair in pieces(everything) for ids in pair)
    limit = {"length_filter": LengthFilter(max_tokens=longest - 1)}
    default, dropped = (
        prepared(tmp_path / name, **limit, bpe_dropout=bpe_dropout)[0]["splits"][
            "train"
        ]
        for name, bpe_dropout in (("default", None), ("data", BpeDropout(0.5)))
    )
    assert dropped["removed"] == default["removed"]
    assert default["removed"]["too long"] > 0
    assert dropped["pairs"] == 10 * default["pairs"] > 0


FLAGS = ["--source_lang=en", "--target_lang=de", "--cldr_pairs=100", "--vocab_size=300"]


def test_prepare_with_bpe_dropout_is_reproducible_across_processes(tmp_path):
    for name in ("one", "two"):
        data = f"--data_dir={tmp_path}/{name}"
        command.stage("prepare", data, *FLAGS, "--bpe_dropout=0.1", extras=["cldr"])
    one, two = (
        (tmp_path / name / "train-00000-of-00001.tfrecord").read_bytes()
        for name in ("one", "two")
    )
    assert one == two
    manifest = PreparedData(tmp_path / "one").manifest
    assert manifest["bpe_dropout"]["segmentations"] == 10
    assert manifest["splits"]["train"]["pairs"] > 900
    failed = command.stage(
        "train",
        f"--data_dir={tmp_path}/one",
        f"--model_dir={tmp_path}/model",
        "--preset=tiny",
        "--read_text",
        status=2,
    )
    assert "was prepared with --bpe_dropout" in failed.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--bpe_dropout=0.1", "--subword=unigram"], "Received: unigram"),
        (["--segmentations=3"], "--segmentations needs --bpe_dropout"),
        (["--bpe_dropout=0.1", "--segmentations=0"], "at least 1. Received: 0"),
        (["--bpe_dropout=1"], "exclusive. Received: 1.0"),
        (["--bpe_dropout=nan"], "exclusive. Received: nan"),
    ],
)
def test_invalid_bpe_dropout_flags_are_rejected(tmp_path, flags, message):
    data = f"--data_dir={tmp_path}/data"
    failed = command.stage("prepare", data, *FLAGS, *flags, status=2, extras=["cldr"])
    assert message in failed.stderr
    assert not list(tmp_path.iterdir())


def test_vocabulary_without_merges_is_rejected(tmp_path):
    given = TokenizerPair.train(PAIRS, "unigram", 100, shared=True)
    with pytest.raises(ValueError, match="Received: unigram"):
        prepared(tmp_path / "data", tokenizers=given, bpe_dropout=BpeDropout(0.1))
    assert not list(tmp_path.iterdir())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
