"""BPE dropout: training text in other pieces than the usual ones."""

import sys

import command
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.data.corpora import Corpus
from t2t_keras.data.preparation import PreparedData, prepare

PAIRS = [(f"two hundred and {n} words", f"zweihundert{n} Wörter") for n in range(60)]


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


def pieces(data, split):
    """Returns the ids of every pair, source and target, without their ends."""
    examples = data.examples(split)
    sides = examples.parse(*examples.fetch(np.arange(len(examples))))
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


@pytest.mark.parametrize("share", [True, False])
def test_every_segmentation_is_of_the_same_text(tmp_path, share):
    _, plain = prepared(tmp_path / "plain", share_vocabulary=share)
    manifest, data = prepared(
        tmp_path / "data", share_vocabulary=share, bpe_dropout=0.2, segmentations=3
    )
    assert manifest["splits"]["train"]["pairs"] == 150
    assert (
        manifest["vocabulary_fingerprint"] == plain.manifest["vocabulary_fingerprint"]
    )
    found = pieces(data, "train")
    assert texts(data, found) == PAIRS[:50] * 3
    usual = pieces(plain, "train")
    for side in (0, 1):
        times = [[pair[side] for pair in found[i : i + 50]] for i in (0, 50, 100)]
        for one, other in (times[:2], times[1:], (times[0], [p[side] for p in usual])):
            assert sum(a != b for a, b in zip(one, other, strict=True)) > 15
    # What translations are measured on is as translation will see it.
    assert pieces(data, "dev") == pieces(plain, "dev")


def test_the_more_is_dropped_the_smaller_are_the_pieces(tmp_path):
    tokens = [
        prepared(tmp_path / str(dropout), bpe_dropout=dropout)[0]["splits"]["train"][
            "source_tokens"
        ]
        for dropout in (0.0, 0.1, 0.5, 0.99)
    ]
    assert tokens == sorted(set(tokens))
    characters = sum(len(source.replace(" ", "")) for source, _ in PAIRS[:50])
    assert tokens[-1] > 0.9 * characters


def test_preparing_again_drops_the_same(tmp_path):
    for name in ("one", "two"):
        prepared(tmp_path / name, bpe_dropout=0.1, segmentations=2)
    (one, two) = (
        (tmp_path / name / "train-00000-of-00001.tfrecord").read_bytes()
        for name in ("one", "two")
    )
    assert one == two


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--bpe_dropout=0.1", "--subword=unigram"], "only a vocabulary of byte-pair"),
        (["--segmentations=3"], "--segmentations goes with --bpe_dropout"),
        (["--bpe_dropout=1"], "bpe_dropout"),
    ],
)
def test_mistakes(tmp_path, flags, message):
    failed = command.stage(
        "prepare",
        f"--data_dir={tmp_path}/data",
        "--source_lang=en",
        "--target_lang=de",
        "--cldr_pairs=100",
        *flags,
        status=2,
    )
    assert message in failed.stderr
    assert not list(tmp_path.iterdir())


def test_the_stage_writes_ten_segmentations(tmp_path):
    command.stage(
        "prepare",
        f"--data_dir={tmp_path}/data",
        "--source_lang=en",
        "--target_lang=de",
        "--cldr_pairs=100",
        "--vocab_size=300",
        "--bpe_dropout=0.1",
    )
    manifest = PreparedData(tmp_path / "data").manifest
    assert (manifest["bpe_dropout"], manifest["segmentations"]) == (0.1, 10)
    assert manifest["splits"]["train"]["pairs"] > 900


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
