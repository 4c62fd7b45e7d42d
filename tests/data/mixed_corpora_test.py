"""Tests of training text from several files with weights and tags."""

import collections
import sys

import command
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.data.bpe_dropout import BpeDropout
from t2t_keras.data.cleaning_options import CleaningOptions
from t2t_keras.data.corpora import TextCorpus
from t2t_keras.data.preparation import prepare
from t2t_keras.data.prepared_data import PreparedData
from t2t_keras.data.splits import open_examples
from t2t_keras.errors import UserError

REAL = [(f"house {i}", f"Haus {i}") for i in range(40)]
BACK_TRANSLATED = [(f"tree {i}", f"Baum {i}") for i in range(60)]


@pytest.fixture
def files(tmp_path):
    """Source and target files of both corpora."""
    found = {}
    for name, pairs in (("real", REAL), ("back", BACK_TRANSLATED)):
        for side, lines in zip("st", zip(*pairs, strict=True), strict=True):
            path = tmp_path / f"{name}.{side}"
            path.write_text("".join(f"{line}\n" for line in lines))
            found.setdefault(side, []).append(str(path))
    return found


def prepare_mixed(files, directory, weights=(), tags=(), **arguments):
    train = ({"train": files[side]} for side in "st")
    corpus = TextCorpus("en", "de", *train, weights, tags)
    manifest = prepare(
        corpus, directory, vocab_size=90, report=lambda message: None, **arguments
    )
    return manifest, PreparedData(directory)


def source_ids(data):
    """Returns the source ids of all records, without the end token."""
    examples = data.examples("train")
    fetched = examples.fetch(np.arange(len(examples)))
    return examples.parse(*map(tf.constant, fetched))[0][:, :-1]


def test_weights_repeat_pairs_or_leave_some_out(files, tmp_path):
    manifest, data = prepare_mixed(files, tmp_path / "data", weights=[2.5, 0.25])
    texts = data.tokenizers.source.detokenize(source_ids(data)).numpy()
    found = collections.Counter(text.decode() for text in texts)
    of_real = [found[source] for source, _ in REAL]
    of_back = [found[source] for source, _ in BACK_TRANSLATED]
    assert set(of_real) == {2, 3}
    assert set(of_back) == {0, 1}
    assert 85 <= sum(of_real) <= 115
    assert 5 <= sum(of_back) <= 25
    assert manifest["splits"]["train"]["pairs"] == sum(of_real) + sum(of_back)


@pytest.mark.parametrize("subword", ["bpe", "unigram", "wordpiece"])
@pytest.mark.parametrize("share", [True, False])
def test_tag_is_one_token_before_each_source_of_its_file(
    files, tmp_path, subword, share
):
    _, data = prepare_mixed(
        files,
        tmp_path / "data",
        tags=["", "<bt>"],
        subword=subword,
        share_vocabulary=share,
        # Filters see the text without tags.
        cleaning=CleaningOptions(("html_tag",)),
    )
    tag = data.tokenizers.source.pieces().index("<bt>")
    rows = source_ids(data).to_list()
    assert [row.count(tag) for row in rows] == [0] * 40 + [1] * 60
    # SentencePiece has a token for the space before the tag.
    assert {row.index(tag) for row in rows[40:]} == {0 if subword == "wordpiece" else 1}
    in_graph = data.tokenizers.source.tokenize(
        tf.constant([f"<bt> {source}" for source, _ in BACK_TRANSLATED])
    )
    assert rows[40:] == in_graph.to_list()
    assert ("<bt>" in data.tokenizers.target.pieces()) == share


def test_copies_of_a_pair_have_segmentations_of_their_own(files, tmp_path):
    manifest, _ = prepare_mixed(
        files,
        tmp_path / "data",
        weights=[1, 2],
        tags=["", "<bt>"],
        bpe_dropout=BpeDropout(0.3, segmentations=4),
    )
    assert manifest["splits"]["train"]["pairs"] == 4 * (40 + 2 * 60)


def test_vocabulary_without_the_tag_is_rejected(files, tmp_path):
    _, data = prepare_mixed(files, tmp_path / "plain")
    with pytest.raises(UserError, match="The tag <bt> is no token of the source voc"):
        prepare_mixed(
            files, tmp_path / "data", tags=["", "<bt>"], tokenizers=data.tokenizers
        )
    assert not (tmp_path / "data").exists()


def test_weighted_text_cannot_be_read_again(files, tmp_path):
    arguments = {"corpus": "text", "train_weights": [1.0, 2.0]}
    _, data = prepare_mixed(
        files, tmp_path / "data", weights=[1, 2], corpus_arguments=arguments
    )
    with pytest.raises(UserError, match="was prepared with --train_weights"):
        open_examples(data, "train", from_text=True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--train_weights=1"], "--train_weights must have a value for each of the 2"),
        (["--train_weights=1,x"], "--train_weights must be numbers. Received: x"),
        (["--train_weights=1,nan"], "Weights must be between 0 and 1000, exclusive"),
        (["--train_tags=<a b>,"], "A tag must be a single word. Received: '<a b>'"),
    ],
)
def test_invalid_weights_and_tags_are_named(files, tmp_path, flags, message):
    result = command.stage(
        "prepare",
        "--corpus=text",
        f"--train_source={','.join(files['s'])}",
        f"--train_target={','.join(files['t'])}",
        f"--data_dir={tmp_path}/data",
        *flags,
        status=2,
    )
    assert message in result.stderr
    assert not (tmp_path / "data").exists()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
