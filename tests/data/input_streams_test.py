"""Tests of corpora read from pipes, which may be written in any order."""

import contextlib
import gzip
import os
import sys
import threading

import pytest

from t2t_keras.data.corpora import TextCorpus
from t2t_keras.data.corpus_catalog import open_corpus
from t2t_keras.data.preparation import prepare
from t2t_keras.data.prepared_data import PreparedData, text_path
from t2t_keras.data.splits import open_examples
from t2t_keras.data.text_lines import read_lines
from t2t_keras.data.treebank import TreebankCorpus

# More than the buffer of a pipe, so that a writer blocks until the pipe is read.
PAIRS = [(f"source sentence {n}", f"Zielsatz {n}") for n in range(20_000)]


def lines(side):
    return "".join(f"{pair[side]}\n" for pair in PAIRS).encode()


@contextlib.contextmanager
def written_pipes(*pipes):
    """Creates pipes and writes to them one after another in a thread.

    Args:
        *pipes: Paths and contents.
    """

    def write():
        for path, content in pipes:
            path.write_bytes(content)

    for path, _ in pipes:
        os.mkfifo(path)
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    yield [str(path) for path, _ in pipes]
    writer.join()


def test_pipes_can_be_read_repeatedly(tmp_path):
    with written_pipes(
        (tmp_path / "dev.tsv", b"a\tb\n"),
        (tmp_path / "de", gzip.compress(lines(1))),
        (tmp_path / "en.gz", gzip.compress(lines(0))),
    ) as (dev, target, source):
        corpus = TextCorpus(
            "en", "de", {"train": [source], "dev": [dev]}, {"train": [target]}
        )
        assert list(corpus.read("train")) == PAIRS
        assert list(corpus.read("dev")) == [("a", "b")]
    # There is no writer any more, so opening a pipe again would block forever.
    first, second = corpus.read("train"), corpus.read("train")
    assert [next(first), next(first), next(second)] == [*PAIRS[:2], PAIRS[0]]
    assert [*PAIRS[:2], *first] == PAIRS


def test_treebank_reads_pipes(tmp_path):
    with written_pipes((tmp_path / "trees", b"(S (NP (N dogs)) (VP (V bark)))\n")) as [
        path
    ]:
        corpus = TreebankCorpus("en", {"train": [path]})
        assert list(corpus.read("train")) == list(corpus.read("train"))
    assert [source for source, _ in corpus.read("train")] == ["dogs bark"]


def test_prepare_from_pipes_matches_prepare_from_files(tmp_path):
    for name, content in (("en", lines(0)), ("de", lines(1)), ("dev", b"a\tb\n")):
        (tmp_path / name).write_bytes(content)
    with written_pipes(
        (tmp_path / "en.pipe", lines(0)),
        (tmp_path / "de.pipe", lines(1)),
        (tmp_path / "dev.pipe", b"a\tb\n"),
    ):
        manifests = []
        for end in ("", ".pipe"):
            arguments = {
                "corpus": "text",
                "source_lang": "en",
                "target_lang": "de",
                "sources": {
                    "train": [f"{tmp_path}/en{end}"],
                    "dev": [f"{tmp_path}/dev{end}"],
                },
                "targets": {"train": [f"{tmp_path}/de{end}"]},
            }
            manifests.append(
                prepare(
                    open_corpus(**arguments),
                    tmp_path / f"data{end}",
                    vocab_size=60,
                    share_vocabulary=False,
                    corpus_arguments=arguments,
                    report=lambda message: None,
                )
            )
    for manifest in manifests:
        del manifest["corpus_arguments"]
    assert manifests[0] == manifests[1]
    data = PreparedData(tmp_path / "data.pipe")
    assert list(read_lines(text_path(data.data_dir, "dev", "source"))) == ["a"]
    with pytest.raises(ValueError, match=r"en\.pipe.* cannot be read again"):
        open_examples(data, "train", from_text=True)
    assert len(open_examples(PreparedData(tmp_path / "data"), "train", True)) == 20_000


def test_stream_given_twice_is_rejected_before_reading(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    (tmp_path / "link").symlink_to(path)
    for other, message in ((path, "given twice"), (tmp_path / "link", f"as {path}")):
        with pytest.raises(ValueError, match=message):
            TextCorpus("en", "de", {"train": [str(path)]}, {"train": [str(other)]})


def test_errors_in_a_stream_name_the_stream(tmp_path):
    with written_pipes((tmp_path / "x", b"a\tb\nc\n"), (tmp_path / "y", b"\xff\n")) as (
        x,
        y,
    ):
        corpus = TextCorpus("en", "de", {"train": [x], "dev": [y]}, {})
        with pytest.raises(ValueError, match=f"{x}:2: expected two columns"):
            list(corpus.read("train"))
        with pytest.raises(ValueError, match=f"{y}:1: invalid UTF-8"):
            list(corpus.read("dev"))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
