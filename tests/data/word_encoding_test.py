"""Tests of tokenization outside of the graph and of the records it writes."""

import io
import random
import subprocess
import sys

import pytest
import tensorflow as tf

from t2t_keras.data.example_records import serialize_example, write_records
from t2t_keras.data.tokenizer_pair import TOKENIZERS
from t2t_keras.data.word_counts import clean_line, split_lines
from t2t_keras.data.word_encoding import LineEncoder, varints

LETTERS = "abcdefg hij kl .,!?   "
# Characters that normalization splits, joins, removes or turns into spaces.
ODD = (
    "\x00\x07\x1f\x85\u00a0\u00a8\u00b4\u00bd\u0301\u0308\u0345\u037a\u061c\u064b\u1100\u1161"
    "\u11a8\u1680\u180e\u200b\u200d\u2028\u2460\u2581\u3000\ufb01\ufdfa\ufeff\uff9e\ufffd\U0001f44d"
)


def odd_lines(number):
    """Returns random text that is hard to split into words."""
    rng = random.Random(number)

    def character():
        if rng.random() < 0.7:
            return rng.choice(LETTERS)
        return rng.choice(ODD) if rng.random() < 0.7 else chr(rng.randrange(0xD800))

    return [
        "".join(character() for _ in range(rng.randrange(30))) for _ in range(number)
    ]


@pytest.mark.parametrize("normalization", ["nmt_nfkc", "nfkc_cf", "identity"])
@pytest.mark.parametrize("subword", [*TOKENIZERS])
def test_tokens_equal_those_of_the_graph(subword, normalization):
    lines = odd_lines(1000)
    text = [*lines[:200], *["ab cd efg hij kl . , ! ?"] * 40]
    tokenizer = TOKENIZERS[subword].train(text, 4000, normalization)
    expected = tokenizer.tokenize(tf.constant(lines)).to_list()
    found = LineEncoder(subword, tokenizer.model)(lines)
    assert found.ids == [varints(ids) for ids in expected]
    assert found.lengths.tolist() == [len(ids) for ids in expected]
    # Tokens that are remembered from earlier lines.
    encoder = LineEncoder(subword, tokenizer.model)
    assert [*encoder(lines[::-1]).ids, *encoder(lines).ids] == found.ids[
        ::-1
    ] + found.ids


def test_pieces_that_cross_a_space_are_found():
    tokenizer = TOKENIZERS["bpe"].train(["ab cd"] * 50, 20)
    proto = tf_sentencepiece_proto(tokenizer.model)
    proto.pieces.add(piece="\u2581ab\u2581cd", score=9.0)
    crossing = TOKENIZERS["bpe"](proto.SerializeToString())
    expected = crossing.tokenize(tf.constant(["ab cd"])).to_list()
    assert LineEncoder("bpe", crossing.model)(["ab cd"]).ids == [varints(expected[0])]


def tf_sentencepiece_proto(model):
    from sentencepiece import sentencepiece_model_pb2

    return sentencepiece_model_pb2.ModelProto.FromString(model)


def test_words_equal_those_of_cleaned_lines():
    lines = odd_lines(300)
    assert split_lines(lines) == [
        [word for word in clean_line(line).split(" ") if word] for line in lines
    ]


@pytest.mark.parametrize(
    "ids",
    [
        ([], []),
        ([5], []),
        ([0, 127, 128], [16_383, 16_384, 2**31 - 1]),
        ([7] * 9000, [8]),
    ],
)
def test_records_equal_those_of_tensorflow(ids):
    example = tf.train.Example()
    for name, side in zip(("source", "target"), ids, strict=True):
        example.features.feature[name].int64_list.value.extend(side)
    record = serialize_example(*map(varints, ids))
    # Without ids, TensorFlow leaves the list out, which parses to the same message.
    assert tf.train.Example.FromString(record) == example or not all(ids)
    parsed = tf.io.parse_single_example(
        record, {name: tf.io.RaggedFeature(tf.int64) for name in ("source", "target")}
    )
    assert parsed["source"].numpy().tolist() == ids[0]
    assert parsed["target"].numpy().tolist() == ids[1]
    if all(ids):
        assert record == example.SerializeToString(deterministic=True)


def test_files_equal_those_of_tensorflow(tmp_path):
    records = [b"", b"one", bytes(range(256)) * 500]
    file = io.BytesIO()
    write_records(file, records)
    with tf.io.TFRecordWriter(str(tmp_path / "expected")) as writer:
        for record in records:
            writer.write(record)
    assert file.getvalue() == (tmp_path / "expected").read_bytes()


def test_workers_do_not_load_tensorflow():
    code = "import sys, t2t_keras.data.shards; print('tensorflow' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
