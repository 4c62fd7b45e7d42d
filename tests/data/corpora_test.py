"""Tests of text corpora and tensorflow-datasets corpora."""

import gzip
import socket
import sys

import pytest
import tensorflow_datasets as tfds

from t2t_keras.data.corpora import TextCorpus
from t2t_keras.data.corpus_catalog import open_corpus
from t2t_keras.data.text_lines import read_lines


def write(path, lines, end="\n"):
    content = "".join(line + end for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def text_corpus(source, target=None, **other):
    return TextCorpus(
        "en", "de", {"train": source, **other}, {"train": target} if target else {}
    )


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_text_corpus_reads_two_aligned_files(tmp_path, suffix):
    source = write(tmp_path / f"en{suffix}", ["a house", "two", "über"])
    target = write(tmp_path / f"de{suffix}", ["ein Haus", "zwei", "ß"])
    corpus = open_corpus(
        "text", "en", "de", sources={"train": [source]}, targets={"train": [target]}
    )
    assert (corpus.name, corpus.source_lang, corpus.target_lang) == ("text", "en", "de")
    pairs = [("a house", "ein Haus"), ("two", "zwei"), ("über", "ß")]
    assert list(corpus.read("train")) == pairs
    assert list(corpus.read("train")) == pairs


@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz"])
def test_text_corpus_reads_tab_separated_columns(tmp_path, suffix):
    lines = ["a house\tein Haus", "\tleer", "", "\t", "two\tzwei"]
    corpus = text_corpus([write(tmp_path / f"x{suffix}", lines)])
    assert list(corpus.read("train")) == [
        ("a house", "ein Haus"),
        ("", "leer"),
        ("", ""),
        ("", ""),
        ("two", "zwei"),
    ]


def test_splits_may_have_several_plain_and_gzip_files(tmp_path):
    files = {
        name: write(tmp_path / name, [f"{name} {i}" for i in range(2)])
        for name in ("b.en", "a.en.gz", "b.de.gz", "a.de")
    }
    table = write(tmp_path / "dev.tsv", ["d\tD"])
    corpus = open_corpus(
        "text",
        "en",
        "de",
        sources={"train": [files["b.en"], files["a.en.gz"]], "dev": [table]},
        targets={"train": [files["b.de.gz"], files["a.de"]], "dev": []},
    )
    assert list(corpus.splits()) == ["train", "dev"]
    assert list(corpus.read("train")) == [
        ("b.en 0", "b.de.gz 0"),
        ("b.en 1", "b.de.gz 1"),
        ("a.en.gz 0", "a.de 0"),
        ("a.en.gz 1", "a.de 1"),
    ]
    assert list(corpus.read("dev")) == [("d", "D")]


UNUSUAL = [
    "first",
    "",
    "a\tb",
    "nul\x00inside",
    "line\u2028separator",
    "form\x0cfeed \x0b \x1c \x85 \u2029",
    " spaces ",
    " ".join(["token"] * 10_000),
    "",
    "last",
]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_with_unusual_characters_stay_aligned(tmp_path, suffix, end):
    numbers = [str(i) for i in range(len(UNUSUAL))]
    odd = write(tmp_path / f"odd{suffix}", UNUSUAL, end)
    plain = write(tmp_path / f"plain{suffix}", numbers)
    expected = list(zip(UNUSUAL, numbers, strict=True))
    assert list(text_corpus([odd], [plain]).read("train")) == expected
    swapped = text_corpus([plain], [odd]).read("train")
    assert [pair[::-1] for pair in swapped] == expected


def test_byte_order_marks_are_removed(tmp_path):
    lines = ["\ufefffirst", "sec\ufeffond"]
    path = write(tmp_path / "x", lines, "\r\n")
    assert list(read_lines(path)) == ["first", "sec\ufeffond"]
    # Each of several files may have one.
    corpus = text_corpus([path, path], [path, path])
    assert [source for source, _ in corpus.read("train")][::2] == ["first", "first"]
    table = write(tmp_path / "x.tsv", ["\ufeffa\tb"], "\r\n")
    assert list(text_corpus([table]).read("train")) == [("a", "b")]


@pytest.mark.parametrize("content", [b"a\nb", b"a\nb\n", b"a\r\nb\r\n", b"a\r\nb"])
def test_last_line_may_lack_a_line_feed(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    assert list(read_lines(tmp_path / "x")) == ["a", "b"]


def test_empty_file_has_no_lines(tmp_path):
    (tmp_path / "x").write_bytes(b"")
    assert list(read_lines(tmp_path / "x")) == []


@pytest.mark.parametrize(
    ("source_lines", "target_lines", "message"),
    [
        (3, 5, "second.de:4: this line has no counterpart: .*second.en ends after 3 "),
        (5, 3, "second.en:4: this line has no counterpart: .*second.de ends after 3 "),
        (1, 0, "second.en:1: this line has no counterpart: .*second.de ends after 0 "),
    ],
)
def test_misaligned_files_raise_an_error_with_file_and_line(
    tmp_path, source_lines, target_lines, message
):
    first = write(tmp_path / "first", ["x"] * 2)
    source = write(tmp_path / "second.en", ["s"] * source_lines)
    target = write(tmp_path / "second.de", ["t"] * target_lines)
    corpus = text_corpus([first, source], [first, target])
    with pytest.raises(ValueError, match=message):
        list(corpus.read("train"))


@pytest.mark.parametrize("name", ["x", "x.gz"])
def test_invalid_utf8_raises_an_error_with_file_and_line(tmp_path, name):
    content = "gut\nüber\n".encode() + "über\n".encode("latin-1")
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if path.suffix else content)
    with pytest.raises(ValueError, match=rf"{name}:3: invalid UTF-8 at byte 1 .*xfc"):
        list(read_lines(path))
    other = write(tmp_path / "other", ["a", "b", "c"])
    with pytest.raises(ValueError, match=f"{name}:3: invalid UTF-8"):
        list(text_corpus([other], [str(path)]).read("train"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "No such file: {}"),
        ("absent.gz", "No such file: {}"),
        (".", "{} is a directory"),
    ],
)
def test_missing_file_raises_an_error_with_its_name(tmp_path, name, message):
    path = tmp_path / name
    with pytest.raises(ValueError, match=message.format(path)):
        list(text_corpus([str(path)]).read("train"))


def _truncated(content):
    return content[: len(content) // 2]


def _changed_inside(content):
    return content[:100] + bytes([content[100] ^ 0xFF]) + content[101:]


def _changed_checksum(content):
    return content[:-6] + bytes([content[-6] ^ 0xFF]) + content[-5:]


def _never_compressed(content):
    return b"a\nb\n"


@pytest.mark.parametrize(
    "damage", [_truncated, _changed_inside, _changed_checksum, _never_compressed]
)
def test_damaged_gzip_file_raises_an_error_with_its_name(tmp_path, damage):
    lines = "".join(f"{i} {i * i % 9973} {i**3 % 9973}\n" for i in range(3000))
    path = tmp_path / "x.gz"
    path.write_bytes(damage(gzip.compress(lines.encode(), mtime=0)))
    with pytest.raises(ValueError, match=r"x\.gz:\d+: damaged gzip"):
        list(read_lines(path))


@pytest.mark.parametrize(("line", "columns"), [("a\tb\tc", 3), ("a", 1), ("a\tb\t", 3)])
def test_wrong_number_of_columns_raises_an_error_with_file_and_line(
    tmp_path, line, columns
):
    path = write(tmp_path / "x.tsv", ["a\tb", "", line])
    with pytest.raises(
        ValueError, match=rf"x\.tsv:3: expected two columns .* found {columns}\."
    ):
        list(text_corpus([path]).read("train"))


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        ({"train": ["a", "b"]}, {"train": ["c"]}, "train.*2 source.*1 target"),
        ({"train": ["a"]}, {"dev": ["c"]}, "dev.*0 source.*1 target"),
        ({"dev": ["a"]}, {"dev": ["b"]}, "at least one training file"),
        ({}, {}, "at least one training file"),
    ],
)
def test_incomplete_file_lists_are_rejected(sources, targets, message):
    with pytest.raises(ValueError, match=message):
        open_corpus("text", "en", "de", sources=sources, targets=targets)


def test_unknown_corpus_is_rejected():
    with pytest.raises(ValueError, match=r"treebank or tfds:NAME\. Received: 'csv'"):
        open_corpus("csv", "en", "de")


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*arguments, **keywords):
        raise AssertionError(f"Tried to reach the network: {arguments}")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture
def wmt14_dir(tmp_path):
    """Writes a small wmt14_translate/de-en in the format of tensorflow-datasets."""

    def examples(split, number):
        return [
            (i, {"de": f"{split}-Satz {i} mit ß", "en": f"{split} sentence {i}"})
            for i in range(number)
        ]

    tfds.dataset_builders.store_as_tfds_dataset(
        name="wmt14_translate",
        config="de-en",
        version="1.0.0",
        features=tfds.features.Translation(languages=("de", "en")),
        split_datasets={
            "train": examples("train", 5),
            "validation": examples("dev", 2),
            "test": examples("test", 3),
        },
        data_dir=str(tmp_path),
    )
    return str(tmp_path)


@pytest.mark.usefixtures("no_network")
def test_tfds_dataset_opens_by_name_in_either_direction(wmt14_dir):
    name = "tfds:wmt14_translate/de-en"
    forth = open_corpus(name, "en", "de", tfds_data_dir=wmt14_dir)
    back = open_corpus(name, "de", "en", tfds_data_dir=wmt14_dir)
    assert forth.name == name
    assert list(forth.splits()) == ["train", "dev", "test"]
    for split, number in (("train", 5), ("dev", 2), ("test", 3)):
        pairs = list(forth.read(split))
        assert sorted(pairs) == [
            (f"{split} sentence {i}", f"{split}-Satz {i} mit ß") for i in range(number)
        ]
        assert list(forth.read(split)) == pairs
        assert [(en, de) for de, en in back.read(split)] == pairs


@pytest.mark.usefixtures("no_network")
def test_language_missing_from_a_dataset_is_rejected(wmt14_dir):
    with pytest.raises(
        ValueError, match=r"tfds:wmt14_translate/de-en .*\['de', 'en'\].*'fr'"
    ):
        open_corpus("tfds:wmt14_translate/de-en", "en", "fr", tfds_data_dir=wmt14_dir)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", ["no_such_thing", "wmt14_translate/xx-yy", "a b", ""])
def test_unknown_tfds_dataset_is_rejected(tmp_path, name):
    with pytest.raises(ValueError, match=f"has no dataset '{name}'"):
        open_corpus(f"tfds:{name}", "en", "de", tfds_data_dir=str(tmp_path))


@pytest.fixture(scope="module")
def small_translate():
    """Registers a dataset with the features of wmt14_translate, but no dev split."""

    class SmallTranslate(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.Translation(languages=("de", "en"))
            )

        def _split_generators(self, dl_manager):
            return {name: self._generate_examples() for name in ("train", "test")}

        def _generate_examples(self):
            yield 0, {"de": "Erste Zeile\nzweite\r\ndritte\u2028vierte", "en": "Lines"}

    return "tfds:small_translate"


@pytest.mark.usefixtures("no_network")
def test_registered_builder_is_prepared_on_first_use(tmp_path, capsys, small_translate):
    corpus = open_corpus(small_translate, "de", "en", tfds_data_dir=str(tmp_path))
    assert not list(tmp_path.iterdir())
    assert list(corpus.splits()) == ["train", "test"]
    # Later stages write one sentence per line.
    pair = ("Erste Zeile zweite dritte vierte", "Lines")
    assert list(corpus.read("train")) == list(corpus.read("test")) == [pair]
    # Standard output is reserved for results.
    assert capsys.readouterr().out == ""


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
