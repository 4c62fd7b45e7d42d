"""BPE dropout: training text in other pieces than the usual ones."""

import random
import sys

import command
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from t2t_keras.data import examples
from t2t_keras.data.bpe_dropout import BpeDropout, Merges
from t2t_keras.data.corpora import Corpus
from t2t_keras.data.filters import LengthFilter
from t2t_keras.data.preparation import PreparedData, prepare
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
    """Returns the ids of every pair, source and target, without their ends."""
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
def test_without_dropout_the_pieces_are_sentencepieces(tokenizer, line):
    merges = Merges(tokenizer)
    found = merges.ids(merges.words(line), 0.0, random.Random(0).random)
    usual = tokenizer.tokenize(tf.constant([line])).to_list()[0]
    assert found.tolist() == usual
    if line.isprintable():
        model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
        assert found.tolist() == model.encode(line)


@pytest.mark.parametrize("length", [2, 3, 5])
def test_a_word_stays_whole_as_often_as_by_algorithm_1(tokenizer, length):
    merges, draw = Merges(tokenizer), random.Random(0).random
    word = next(piece for piece in tokenizer.pieces()[4:] if len(piece) == length)
    assert merges.ids([word], 0.0, draw).size == 1
    expected = probability_of_one(merges, list(word), 0.3)
    assert expected == pytest.approx(0.7) if length == 2 else expected < 0.7
    n = 4000
    whole = sum(merges.ids([word], 0.3, draw).size == 1 for _ in range(n)) / n
    assert whole == pytest.approx(expected, abs=0.03)


def probability_of_one(merges, left, dropout):
    """Returns how likely some pieces become one, over all that may be passed over."""
    if len(left) == 1:
        return 1.0
    joined = [left[i] + left[i + 1] for i in range(len(left) - 1)]
    by_rank = sorted(
        (merges.ids([word], 0.0, lambda: 1.0)[0], i)
        for i, word in enumerate(joined)
        if merges.ids([word], 0.0, lambda: 1.0).size == 1
    )
    total, reached = 0.0, 1.0
    for _, i in by_rank:
        rest = [*left[:i], joined[i], *left[i + 2 :]]
        total += reached * (1 - dropout) * probability_of_one(merges, rest, dropout)
        reached *= dropout
    return total


@pytest.mark.parametrize("share", [True, False])
def test_every_segmentation_is_of_the_same_text(tmp_path, share, monkeypatch):
    monkeypatch.setattr(examples, "_CHUNK_PAIRS", 7)
    usual_manifest, usual = prepared(tmp_path / "usual", share_vocabulary=share)
    manifest, data = prepared(
        tmp_path / "data", share_vocabulary=share, bpe_dropout=BpeDropout(0.2, 3)
    )
    assert manifest["bpe_dropout"]["dropout"] == 0.2
    assert manifest["splits"]["train"]["pairs"] == 150
    name = "vocabulary_fingerprint"
    assert manifest[name] == usual_manifest[name]
    found = pieces(data)
    assert texts(data, found) == [pair for pair in PAIRS[:50] for _ in range(3)]
    for side in (0, 1):
        times = [[pair[side] for pair in found[i::3]] for i in range(3)]
        for one, other in (
            times[:2],
            times[1:],
            (times[0], [p[side] for p in pieces(usual)]),
        ):
            assert sum(a != b for a, b in zip(one, other, strict=True)) > 15
    # What translations are measured on is as translation will see it.
    assert pieces(data, "dev") == pieces(usual, "dev")


@pytest.mark.parametrize(("sides", "kept"), [("source", 1), ("target", 0)])
def test_one_side_can_be_left_as_it_is(tmp_path, sides, kept):
    _, usual = prepared(tmp_path / "usual")
    _, data = prepared(tmp_path / "data", bpe_dropout=BpeDropout(0.3, 1, sides))
    same = [
        [a[side] == b[side] for a, b in zip(pieces(data), pieces(usual), strict=True)]
        for side in (0, 1)
    ]
    assert all(same[kept])
    assert sum(same[1 - kept]) < 25


def test_a_pair_is_kept_or_removed_by_its_usual_pieces(tmp_path):
    _, everything = prepared(tmp_path / "everything")
    longest = max(len(ids) for pair in pieces(everything) for ids in pair)
    limit = {"length_filter": LengthFilter(max_tokens=longest - 1)}
    usual, dropped = (
        prepared(tmp_path / name, **limit, bpe_dropout=bpe_dropout)[0]["splits"][
            "train"
        ]
        for name, bpe_dropout in (("usual", None), ("data", BpeDropout(0.5)))
    )
    assert dropped["removed"] == usual["removed"]
    assert usual["removed"]["too long"] > 0
    assert dropped["pairs"] == 10 * usual["pairs"] > 0


GIVEN = ["--source_lang=en", "--target_lang=de", "--cldr_pairs=100", "--vocab_size=300"]


def test_equal_commands_in_other_processes_write_the_same(tmp_path):
    for name in ("one", "two"):
        data = f"--data_dir={tmp_path}/{name}"
        command.stage("prepare", data, *GIVEN, "--bpe_dropout=0.1")
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
        (["--segmentations=3"], "--segmentations goes with --bpe_dropout"),
        (["--bpe_dropout=0.1", "--segmentations=0"], "at least 1. Received: 0"),
        (["--bpe_dropout=1"], "probability below 1. Received: 1.0"),
        (["--bpe_dropout=nan"], "probability below 1. Received: nan"),
    ],
)
def test_mistakes(tmp_path, flags, message):
    data = f"--data_dir={tmp_path}/data"
    failed = command.stage("prepare", data, *GIVEN, *flags, status=2)
    assert message in failed.stderr
    assert not list(tmp_path.iterdir())


def test_a_given_vocabulary_without_merges_is_refused(tmp_path):
    given = TokenizerPair.train(lambda: PAIRS, "unigram", 100, shared=True)
    with pytest.raises(ValueError, match="Received: unigram"):
        prepared(tmp_path / "data", tokenizers=given, bpe_dropout=BpeDropout(0.1))
    assert not list(tmp_path.iterdir())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
