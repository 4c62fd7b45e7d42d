"""Tests of data preparation and of the training dataset."""

import functools
import itertools
import json
import shutil
import sys
from importlib import metadata

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from t2t_keras.data import preparation
from t2t_keras.data.batch_order import START, BatchOrder, DataPosition
from t2t_keras.data.batching import Batching
from t2t_keras.data.cldr import generate_pairs
from t2t_keras.data.corpora import Corpus, TextCorpus
from t2t_keras.data.dataset import original_errors, training_dataset
from t2t_keras.data.examples import TextExamples
from t2t_keras.data.pair_filters import LengthFilter
from t2t_keras.data.preparation import prepare
from t2t_keras.data.prepared_data import PreparedData, text_path
from t2t_keras.data.record_examples import ShardExamples
from t2t_keras.data.shards import ShardWriter
from t2t_keras.data.text_blocks import write_blocks
from t2t_keras.data.text_lines import read_lines
from t2t_keras.data.vocabulary_text import vocabulary_text
from t2t_keras.data.word_encoding import EncodedLines, varints
from t2t_keras.errors import UserError
from t2t_keras.tasks import LocalTaskRunner

GOOD = list(itertools.islice(generate_pairs("en", "de"), 120))
DEV = [("one\x00 line", "eine Zeile"), ("", "leer"), ("a\tb", "c\u2028d"), ("e", "f")]


class ListCorpus(Corpus):
    """Corpus of pairs in memory."""

    name, source_lang, target_lang = "list", "en", "de"

    def __init__(self, **splits):
        self._splits = splits

    def splits(self):
        return list(self._splits)

    def read(self, split):
        yield from self._splits[split]


def ignore(message):
    pass


def plain_records(path):
    """Reads a TFRecord file with TensorFlow only."""
    ids = tf.io.RaggedFeature(tf.int64)
    for record in tf.data.TFRecordDataset(str(path)):
        example = tf.io.parse_single_example(record, {"source": ids, "target": ids})
        yield example["source"].numpy().tolist(), example["target"].numpy().tolist()


def elements(examples, batching, shuffle=True, **keywords):
    order = BatchOrder(batching, examples.lengths, shuffle)
    dataset = training_dataset(examples, order, **keywords)
    return [
        {name: value.tolist() for name, value in element.items()}
        for element in dataset.as_numpy_iterator()
    ]


def encode(tokenizer, text):
    return tokenizer.tokenize(tf.constant([text])).to_list()[0]


# Pairs that are unsuitable for training, by reason.
UNSUITABLE = {
    "empty": [("", "leer"), ("empty", ""), ("", ""), (" \t\x00 ", "leer")],
    "too long": [("12 " * 10_000, "12 " * 10_000), ("9 7 " * 99, "3")],
    "length ratio": [
        ("1" + " 2" * 30, "1"),
        ("1", "1" + " 2" * 30),
        ("2 3", "4 5 " * 15),
    ],
}


@pytest.fixture(scope="module")
def corpus():
    unsuitable = [pair for pairs in UNSUITABLE.values() for pair in pairs]
    # Mix in unsuitable pairs, to check that order and alignment are kept.
    mixed = [x for pair in zip(GOOD, unsuitable, strict=False) for x in pair]
    return ListCorpus(train=mixed + GOOD[len(unsuitable) :], dev=DEV, test=DEV[3:])


@pytest.fixture(scope="module")
def prepared(corpus, tmp_path_factory):
    """A data directory with three shards, and its manifest."""
    data_dir = tmp_path_factory.mktemp("prepared") / "new" / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preparation, "_PAIRS_PER_BLOCK", 50)
        manifest = prepare(
            corpus,
            data_dir,
            vocab_size=250,
            length_filter=LengthFilter(max_tokens=80, max_length_ratio=3.0),
            corpus_arguments={"corpus": "list"},
            report=ignore,
        )
    return data_dir, manifest


@pytest.fixture
def damaged(prepared, tmp_path):
    """A copy of the data directory that a test may damage."""
    return shutil.copytree(prepared[0], tmp_path / "copy")


def test_length_filter_counts_each_pair_under_one_reason():
    length_filter = LengthFilter(max_tokens=20, max_length_ratio=3.0)
    # fmt: off
    source = np.array([0, 4, 0, 20, 21, 4, 21, 1, 1, 14, 13, 10])
    target = np.array([4, 0, 0, 20, 20, 21, 1, 13, 14, 1, 1, 10])
    expected =        [0, 0, 0, 1,  0,  0, 0,  1,  0,  0, 1, 1]
    # fmt: on
    assert length_filter.keep(source, target).tolist() == list(map(bool, expected))
    assert length_filter.removed == {"empty": 3, "too long": 3, "length ratio": 2}
    # Counts add up over calls.
    assert length_filter.keep(np.array([0, 5]), np.array([1, 5])).tolist() == [
        False,
        True,
    ]
    assert length_filter.removed["empty"] == 4


def test_unsuitable_pairs_are_removed_and_counted(prepared):
    splits = prepared[1]["splits"]
    assert splits["train"]["pairs"] == len(GOOD)
    assert splits["train"]["removed"] == {
        cause: len(pairs) for cause, pairs in UNSUITABLE.items()
    }
    assert splits["dev"]["pairs"] == 3
    assert splits["dev"]["removed"] == {"empty": 1, "too long": 0, "length ratio": 0}
    assert splits["test"]["pairs"] == 1


def test_manifest_records_arguments_counts_and_versions(prepared):
    data_dir, manifest = prepared
    assert json.loads((data_dir / "manifest.json").read_text()) == manifest
    data = PreparedData(data_dir)
    assert data.manifest == manifest
    expected = {
        "corpus": "list",
        "corpus_arguments": {"corpus": "list"},
        "source_lang": "en",
        "target_lang": "de",
        "subword": "bpe",
        "source_vocab_size": 250,
        "target_vocab_size": 250,
        "share_vocabulary": True,
        "vocabulary_fingerprint": data.tokenizers.fingerprint,
        "length_filter": {"max_tokens": 80, "max_length_ratio": 3.0},
    }
    assert {key: manifest[key] for key in expected} == expected
    for name in ("tensorflow", "tensorflow-text", "sentencepiece", "t2t-keras"):
        assert manifest["versions"][name] == metadata.version(name)
    lengths = data.examples("train").lengths
    assert manifest["splits"]["train"]["source_tokens"] == (lengths[:, 0] - 1).sum()
    assert manifest["splits"]["train"]["target_tokens"] == (lengths[:, 1] - 1).sum()


def test_records_are_plain_tfrecord_shards(prepared):
    data_dir, manifest = prepared
    # 129 pairs are three blocks of 50, and each block is a shard.
    paths = [data_dir / f"train-{i:05d}-of-00003.tfrecord" for i in range(3)]
    assert sorted(data_dir.glob("train*.tfrecord")) == paths
    assert manifest["splits"]["train"]["shards"] == 3
    shards = [list(plain_records(path)) for path in paths]
    # Nine unsuitable pairs are among the first ones.
    assert [len(shard) for shard in shards] == [41, 50, 29]
    in_order = [pair for shard in shards for pair in shard]
    sides = PreparedData(data_dir).tokenizers
    assert in_order == [
        (encode(sides.source, source), encode(sides.target, target))
        for source, target in GOOD
    ]
    # Readers add start, end and padding; records do not contain them.
    assert not {0, 1, 2} & {i for source, target in in_order for i in source + target}


def test_held_out_text_is_kept_completely(prepared):
    data_dir, _ = prepared
    for split, pairs in (("dev", DEV), ("test", DEV[3:])):
        sides = [
            list(read_lines(text_path(data_dir, split, side)))
            for side in ("source", "target")
        ]
        assert list(zip(*sides, strict=True)) == pairs
    assert not list(data_dir.glob("train*.txt"))


def test_prepare_is_reproducible(corpus, tmp_path):
    for name in ("one", "two"):
        prepare(corpus, tmp_path / name, vocab_size=250, report=ignore)
    files = {p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*.*")}
    assert len(files) > 10
    for file in files:
        one, two = ((tmp_path / name / file).read_bytes() for name in ("one", "two"))
        assert one == two, file


@pytest.mark.parametrize(
    ("subword", "share"),
    list(itertools.product(["bpe", "unigram", "wordpiece"], [True, False])),
)
def test_records_match_text_examples_and_sentencepiece(tmp_path, subword, share):
    # WordPiece training is slow on long words.
    short = [p for p in GOOD if max(map(len, " ".join(p).split())) < 10][:30]
    pairs = short if subword == "wordpiece" else GOOD
    corpus = ListCorpus(train=[("", "x"), *pairs, ("a\x00b\u2028", "c\td")])
    manifest = prepare(
        corpus,
        tmp_path / "data",
        subword=subword,
        vocab_size=150,
        share_vocabulary=share,
        report=ignore,
    )
    data = PreparedData(tmp_path / "data")
    assert manifest["subword"] == subword
    assert manifest["share_vocabulary"] == data.tokenizers.shared == share
    assert manifest["vocabulary_fingerprint"] == data.tokenizers.fingerprint
    assert manifest["source_vocab_size"] == data.tokenizers.source.vocab_size
    assert manifest["target_vocab_size"] == data.tokenizers.target.vocab_size
    records = data.examples("train")
    text = TextExamples(corpus, "train", data.tokenizers, LengthFilter())
    assert len(records) == len(text) == len(pairs) + 1
    np.testing.assert_array_equal(records.lengths, text.lengths)
    batching = Batching(batch_tokens=300)
    of_records = elements(records, batching, parts=2, epochs=1)
    assert of_records == elements(text, batching, parts=2, epochs=1)
    rows = {
        side: [row for element in of_records for row in element[side]]
        for side in ("source", "target")
    }
    for side, i in (("source", 0), ("target", 1)):
        tokenizer = getattr(data.tokenizers, side)
        if subword == "wordpiece":
            expected = [encode(tokenizer, pair[i]) for pair in pairs]
        else:
            model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
            expected = model.encode([pair[i] for pair in pairs])
        real = [[t for t in row if t] for row in rows[side] if any(row)]
        assert all([*ids, 2] in real for ids in expected)
        assert all(row.index(2) == len(row) - 1 for row in real)


def test_unusual_text_stays_aligned(tmp_path):
    odd = ["", "\ufeff", "nul\x00", "a\u2028b", "tab\t", "x\x0c\x85", "t " * 10_000]
    lines = [(f"{i} {odd[i % 7]}", f"{odd[i // 7 % 7]} {i}") for i in range(200)]
    for side, end in ((0, "\r\n"), (1, "\n")):
        content = "\ufeff" + "".join(pair[side] + end for pair in lines)
        (tmp_path / str(side)).write_bytes(content.encode())
    corpus = TextCorpus(
        "en",
        "de",
        {"train": [str(tmp_path / "0")]},
        {"train": [str(tmp_path / "1")]},
    )
    prepare(
        corpus,
        tmp_path / "data",
        vocab_size=60,
        length_filter=LengthFilter(30_000, 1e6),
        report=ignore,
    )
    data = PreparedData(tmp_path / "data")
    records = list(plain_records(next((tmp_path / "data").glob("train*.tfrecord"))))
    assert len(records) == 200
    assert max(len(source) for source, _ in records) > 10_000
    sources, targets = (
        data.tokenizers.source.detokenize(tf.ragged.constant(rows)).numpy()
        for rows in zip(*records, strict=True)
    )
    numbers = [str(i).encode() for i in range(200)]
    assert [text.split()[0] for text in sources] == numbers
    assert [text.split()[-1] for text in targets] == numbers


def test_held_out_text_found_in_training_is_counted(tmp_path):
    reported = []
    train = [("a  b", "c d"), ("e", "f"), ("", "x"), ("g h", "i")] * 5
    dev = [("a b", "c d"), ("a b", "other"), ("e", " f "), ("new", "f"), ("", "x")]
    manifest = prepare(
        ListCorpus(train=train, dev=dev, test=[("new", "i")]),
        tmp_path / "data",
        vocab_size=30,
        report=reported.append,
    )
    splits = manifest["splits"]
    assert splits["dev"]["in_train"] == {"pairs": 2, "sources": 3}
    assert splits["test"]["in_train"] == {"pairs": 0, "sources": 0}
    reported = [text for text in reported if "also occur" in text]
    assert len(reported) == 1
    assert reported[0].startswith(
        "dev: of 4 pairs, 2 also occur in train, and 3 source sentences do."
    )


def test_number_of_processes_does_not_change_the_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "_PAIRS_PER_BLOCK", 25)
    corpus = ListCorpus(train=GOOD, dev=GOOD[:9])
    for processes in (1, 2):
        prepare(
            corpus,
            tmp_path / str(processes),
            vocab_size=250,
            runner=LocalTaskRunner(processes),
            report=ignore,
        )
    one, two = tmp_path / "1", tmp_path / "2"
    files = sorted(path.relative_to(one) for path in one.rglob("*.*"))
    assert files == sorted(path.relative_to(two) for path in two.rglob("*.*"))
    assert len([file for file in files if file.suffix == ".tfrecord"]) == 6
    for file in files:
        assert (one / file).read_bytes() == (two / file).read_bytes(), file
    assert len(PreparedData(two).examples("train")) == len(GOOD)


def test_vocabulary_of_a_large_corpus_is_learned_from_a_sample(tmp_path):
    numbers = [str(i) for i in range(20_000)]
    path = functools.partial(preparation._block_path, tmp_path, 0)
    blocks = [*write_blocks([(numbers, numbers)], path, 3000)]
    assert [s for s, _ in vocabulary_text(blocks, 20_000)] == numbers
    sampled = [int(source) for source, _ in vocabulary_text(blocks, 1000)]
    assert sampled == sorted(set(sampled))
    assert 900 < len(sampled) < 1100
    # All parts of the corpus are represented.
    assert np.histogram(sampled, bins=10, range=(0, 20_000))[0].min() > 60


def test_vocabularies_smaller_than_requested_are_reported(tmp_path):
    for share, expected in (
        (True, ["The text"]),
        (False, ["The source text", "The target text"]),
    ):
        reported = []
        prepare(
            ListCorpus(train=GOOD),
            tmp_path / str(share),
            vocab_size=5000,
            share_vocabulary=share,
            report=reported.append,
        )
        reported = [text for text in reported if "yields only" in text]
        assert [text.partition(" yields")[0] for text in reported] == expected


def test_given_tokenizers_are_used(prepared, tmp_path):
    tokenizers = PreparedData(prepared[0]).tokenizers
    manifest = prepare(
        ListCorpus(train=[("quite", "anders")]),
        tmp_path / "data",
        vocab_size=9,
        tokenizers=tokenizers,
        report=ignore,
    )
    assert manifest["vocabulary_fingerprint"] == tokenizers.fingerprint
    assert manifest["source_vocab_size"] == 250
    (pair,) = plain_records(tmp_path / "data" / "train-00000-of-00001.tfrecord")
    assert pair[0] == encode(tokenizers.source, "quite")


def test_existing_directory_is_rejected_unless_empty(tmp_path, corpus):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.txt").write_text("keep")
    with pytest.raises(ValueError, match=r"data is not (an )?empty"):
        prepare(corpus, tmp_path / "data", report=ignore)
    assert [p.name for p in tmp_path.rglob("*")] == ["data", "mine.txt"]
    (tmp_path / "data" / "mine.txt").unlink()
    prepare(corpus, tmp_path / "data", vocab_size=250, report=ignore)
    assert len(PreparedData(tmp_path / "data").examples("train")) > 0
    assert [p.name for p in tmp_path.iterdir()] == ["data"]


def test_file_instead_of_the_directory_is_rejected(tmp_path, corpus):
    (tmp_path / "data").write_text("keep")
    with pytest.raises(ValueError, match=str(tmp_path / "data")):
        prepare(corpus, tmp_path / "data", report=ignore)
    assert (tmp_path / "data").read_text() == "keep"


class FailingCorpus(ListCorpus):
    """Corpus that raises an error at the end of its dev split."""

    def __init__(self, error):
        super().__init__(train=GOOD, dev=GOOD)
        self._error = error

    def read(self, split):
        yield from GOOD
        if split == "dev":
            raise self._error


@pytest.mark.parametrize(
    "error", [ValueError("dev.de:121: x"), OSError("disk"), KeyError("bug")]
)
def test_failure_leaves_nothing_behind_and_is_raised_unchanged(tmp_path, error):
    with pytest.raises(type(error)) as raised:
        prepare(FailingCorpus(error), tmp_path / "data", vocab_size=250, report=ignore)
    assert raised.value is error
    assert not list(tmp_path.iterdir())


def test_interrupt_leaves_nothing_behind(tmp_path):
    def interrupt(message):
        if message.startswith("train: kept"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(
            ListCorpus(train=GOOD), tmp_path / "x", vocab_size=250, report=interrupt
        )
    assert not list(tmp_path.iterdir())


def test_corpus_without_suitable_pairs_is_rejected(tmp_path):
    corpus = ListCorpus(train=[("a b", "")] * 3)
    with pytest.raises(ValueError, match=r"removed all training pairs .*'empty': 3"):
        prepare(corpus, tmp_path / "data", vocab_size=8, report=ignore)
    assert not list(tmp_path.iterdir())


def test_unprepared_directory_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=f"{tmp_path} holds no prepared data"):
        PreparedData(tmp_path)


def test_directory_that_is_being_written_is_rejected(tmp_path):
    def look(message):
        with pytest.raises(ValueError, match="still writing it") as raised:
            PreparedData(tmp_path / "data")
        assert "holds no prepared data" in str(raised.value)
        with pytest.raises(ValueError, match=r"Another t2t-prepare is writing .*/data"):
            prepare(ListCorpus(train=GOOD), tmp_path / "data", report=ignore)

    prepare(CallbackCorpus(look), tmp_path / "data", vocab_size=250, report=ignore)
    assert len(PreparedData(tmp_path / "data").examples("train")) == len(GOOD)


class CallbackCorpus(ListCorpus):
    """Corpus that calls a function before it is read."""

    def __init__(self, look):
        super().__init__(train=GOOD)
        self._look = look

    def splits(self):
        self._look("")
        return super().splits()


def test_missing_split_is_rejected(tmp_path):
    prepare(ListCorpus(train=GOOD), tmp_path / "x", vocab_size=250, report=ignore)
    with pytest.raises(ValueError, match="has no dev split"):
        PreparedData(tmp_path / "x").examples("dev")


def test_vocabulary_that_differs_from_the_records_is_rejected(damaged, tmp_path):
    prepare(ListCorpus(train=GOOD), tmp_path / "x", vocab_size=240, report=ignore)
    shutil.rmtree(damaged / "tokenizer")
    shutil.copytree(tmp_path / "x" / "tokenizer", damaged / "tokenizer")
    with pytest.raises(ValueError, match=f"{damaged} was prepared with another voc"):
        PreparedData(damaged)


def test_damaged_shard_raises_an_error_with_its_name(damaged):
    shard = damaged / "train-00001-of-00003.tfrecord"
    content = shard.read_bytes()
    for wrong in (content[:-5], content + b"x", b""):
        shard.write_bytes(wrong)
        with pytest.raises(ValueError, match=f"{shard} is damaged"):
            PreparedData(damaged).examples("train")
    shard.unlink()
    with pytest.raises(ValueError, match=f"{shard} is missing"):
        PreparedData(damaged).examples("train")


@pytest.mark.parametrize("place", ["record", "checksum"])
def test_damaged_record_ends_the_dataset_with_the_name_of_its_shard(damaged, place):
    shard = damaged / "train-00001-of-00003.tfrecord"
    content = bytearray(shard.read_bytes())
    content[-1 if place == "checksum" else len(content) // 2] ^= 1
    shard.write_bytes(content)
    examples = PreparedData(damaged).examples("train")
    with (
        pytest.raises(UserError, match=f"^{shard} is damaged. Run t2t-prepare again.$"),
        original_errors(examples),
    ):
        elements(examples, Batching(300), epochs=1)


def test_records_that_do_not_match_the_manifest_are_rejected(damaged):
    manifest = json.loads((damaged / "manifest.json").read_text())
    manifest["splits"]["train"]["pairs"] += 1
    (damaged / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"120 train pairs, .* counts 121"):
        PreparedData(damaged).examples("train")


def test_damaged_index_raises_an_error_with_its_name(damaged):
    index = damaged / "train-00001-of-00003.index.npy"
    content = index.read_bytes()
    for wrong in (content[: len(content) // 2], b"", b"garbage"):
        index.write_bytes(wrong)
        with pytest.raises(ValueError, match=f"{index} is damaged"):
            PreparedData(damaged).examples("train")


# Ids of five pairs. Including EOS, their lengths are 3+2, 2+4, 4+4, 2+2 and 1+3.
IDS = [([5, 6], [7]), ([8], [9, 10, 11]), ([12, 13, 14], [15, 16, 17])]
IDS += [([18], [19]), ([], [20, 21])]


@pytest.fixture
def five(tmp_path):
    digests = []
    for shard, pairs in enumerate((IDS[:3], IDS[3:])):
        sides = (
            EncodedLines([*map(varints, side)], np.array([*map(len, side)]))
            for side in zip(*pairs, strict=True)
        )
        with ShardWriter(tmp_path, "train", shard, 2) as writer:
            writer.write(*sides)
        digests.append(writer.index_digest)
    return ShardExamples(tmp_path, "train", digests)


def test_batches_equal_hand_computed_ones(five):
    assert five.lengths.tolist() == [[3, 2], [2, 4], [4, 4], [2, 2], [1, 3]]
    # Sorted by the longer side: 2 | 3 3 | 4 4. 9 positions hold three rows of width 3
    # or two of width 4.
    first, second = elements(five, Batching(9), epochs=1, shuffle=False)
    assert first.pop("source") in (
        [[18, 2, 0], [5, 6, 2], [2, 0, 0]],
        [[18, 2, 0], [2, 0, 0], [5, 6, 2]],
    )
    assert sorted(first.pop("target")) == [[7, 2, 0], [19, 2, 0], [20, 21, 2]]
    assert first == {"batch_target_tokens": 2 + 2 + 3}
    assert second == {
        "source": [[8, 2, 0, 0], [12, 13, 14, 2]],
        "target": [[9, 10, 11, 2], [15, 16, 17, 2]],
        "batch_target_tokens": 8,
    }


def test_parts_equal_hand_computed_ones(five):
    parts = elements(five, Batching(9), parts=3, epochs=1, shuffle=False)
    second = {"batch_target_tokens": 8}
    assert parts[3:] == [
        {"source": [[8, 2]], "target": [[9, 10, 11, 2]], **second},
        {"source": [[12, 13, 14, 2]], "target": [[15, 16, 17, 2]], **second},
        {"source": [[0]], "target": [[0]], **second},
    ]
    # Every part has the token count of the global batch, which normalizes its loss.
    assert [part["batch_target_tokens"] for part in parts] == [7, 7, 7, 8, 8, 8]


def test_pad_to_boundary_gives_hand_computed_shapes(five):
    fixed = Batching(9, pad_to_boundary=True)
    batches = elements(five, fixed, epochs=1, shuffle=False)
    assert [np.shape(b["source"]) for b in batches] == [(2, 4)] * 3
    assert [np.shape(b["target"]) for b in batches] == [(2, 4)] * 3
    assert batches[2]["source"] == [[12, 13, 14, 2], [0, 0, 0, 0]]


def test_element_types(five):
    order = BatchOrder(Batching(9), five.lengths)
    spec = training_dataset(five, order).element_spec
    assert {name: tensor.dtype for name, tensor in spec.items()} == {
        "source": tf.int32,
        "target": tf.int32,
        "batch_target_tokens": tf.int64,
    }
    assert spec["source"].shape.rank == spec["target"].shape.rank == 2


def id_pairs(batches):
    """Returns the sorted id pairs of batches, without EOS and padding."""
    return sorted(
        ([i for i in s if i > 2], [i for i in t if i > 2])
        for batch in batches
        for s, t in zip(batch["source"], batch["target"], strict=True)
        if any(t)
    )


def test_each_epoch_has_every_pair_once_in_another_order(prepared):
    data_dir, _ = prepared
    examples = PreparedData(data_dir).examples("train")
    stored = sorted(
        pair
        for path in data_dir.glob("train*.tfrecord")
        for pair in plain_records(path)
    )
    batches = elements(examples, Batching(300, seed=1), epochs=3)
    order = BatchOrder(Batching(300, seed=1), examples.lengths)
    ends = np.cumsum([order.size(epoch) for epoch in range(3)])
    assert ends[-1] == len(batches)
    epochs = [batches[: ends[0]], batches[ends[0] : ends[1]], batches[ends[1] :]]
    for epoch in epochs:
        assert id_pairs(epoch) == [(list(s), list(t)) for s, t in stored]
    contents = [[b["source"] for b in epoch] for epoch in epochs]
    assert contents[0] != contents[1] != contents[2] != contents[0]
    assert elements(examples, Batching(300, seed=1), epochs=1) == epochs[0]
    other = elements(examples, Batching(300, seed=2), epochs=1)
    assert [b["source"] for b in other] != contents[0]


def test_dataset_resumes_at_any_position(prepared):
    examples = PreparedData(prepared[0]).examples("train")
    batching = Batching(300, seed=1)
    whole = elements(examples, batching, parts=2, epochs=2)
    order = BatchOrder(batching, examples.lengths)
    batches = order.size(0)
    assert batches > 5
    # Counting steps gives the position.
    position = START
    for step in range(2 * batches):
        if step in (0, 4, batches - 1, batches, 2 * batches - 1):
            rest = elements(examples, batching, start=position, parts=2, epochs=2)
            assert rest == whole[2 * step :]
        assert order.epochs(position) == pytest.approx(step / batches)
        position = order.after(position)
    assert position == DataPosition(2, 0)
    # The end of an epoch is the start of the next one.
    end = elements(
        examples, batching, start=DataPosition(0, batches), parts=2, epochs=2
    )
    assert end == whole[2 * batches :]
    # Without `epochs` the dataset repeats forever.
    endless = training_dataset(examples, order, start=DataPosition(1, batches - 1))
    three = [b["source"].numpy().tolist() for b in endless.take(3)]
    later = elements(examples, batching, start=DataPosition(2, 0), epochs=3)
    assert three[1:] == [b["source"] for b in later[:2]]


def test_shares_of_workers_add_up_to_the_full_dataset(prepared):
    examples = PreparedData(prepared[0]).examples("train")
    batching = Batching(200)
    whole = elements(examples, batching, parts=5, epochs=1)
    shares = [
        elements(examples, batching, parts=5, own_parts=own, epochs=1)
        for own in (range(2), range(2, 4), range(4, 5))
    ]
    batches = BatchOrder(batching, examples.lengths).size(0)
    assert [len(share) for share in shares] == [2 * batches, 2 * batches, batches]
    merged = []
    for number in range(batches):
        for share, size in zip(shares, (2, 2, 1), strict=True):
            merged += share[number * size : (number + 1) * size]
    assert merged == whole
    # The steps match those of a single machine.
    alone = elements(examples, batching, epochs=1)
    assert [b["batch_target_tokens"] for b in whole[::5]] == [
        b["batch_target_tokens"] for b in alone
    ]
    for i, batch in enumerate(alone):
        assert id_pairs(whole[5 * i : 5 * i + 5]) == id_pairs([batch])


def test_number_of_shards_does_not_change_batches(prepared, corpus, tmp_path):
    data = PreparedData(prepared[0])
    prepare(
        corpus,
        tmp_path / "data",
        tokenizers=data.tokenizers,
        length_filter=LengthFilter(80, 3.0),
        report=ignore,
    )
    one = PreparedData(tmp_path / "data").examples("train")
    assert len(list((tmp_path / "data").glob("train*.tfrecord"))) == 1
    assert elements(one, Batching(300), epochs=1) == elements(
        data.examples("train"), Batching(300), epochs=1
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
