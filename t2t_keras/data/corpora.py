"""Corpora: sentence pairs from any source through one small interface."""

import contextlib
import gzip
import io
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol

Pair = tuple[str, str]
"""A source sentence and its translation."""

SPLITS = ("train", "dev", "test")


class Corpus(Protocol):
    """What a corpus offers to the later stages.

    Attributes:
        name: How messages and manifests call the corpus.
        source_lang: Language code of the source side.
        target_lang: Language code of the target side.
    """

    name: str
    source_lang: str
    target_lang: str

    def splits(self) -> Sequence[str]:
        """Returns those of `SPLITS` that the corpus has."""

    def read(self, split: str) -> Iterator[Pair]:
        """Yields the sentence pairs of a split, always in the same order.

        Raises:
            ValueError: If the data are not what they should be; the message names
                the file and the line.
        """


def open_binary(path: str | Path) -> BinaryIO:
    """Opens a file for reading, through gzip if its name ends in .gz.

    Raises:
        ValueError: If there is no such file.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"No such file: {path}")
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def decode_line(line: bytes, path: str | Path, number: int) -> str:
    """Turns a line of a file into text.

    Only a line feed ends a line: a NUL, a form feed or U+2028 inside stays inside,
    so that two files stay aligned whatever they hold.

    Args:
        line: The bytes, with or without the line end.
        path: Where they were read, for the message.
        number: The line's number from 1, for the message.

    Returns:
        The text without line end, and without a byte-order mark on line 1.

    Raises:
        ValueError: If the bytes are no UTF-8.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}:{number}: invalid UTF-8 at byte {error.start + 1} of the line "
            f"({line[error.start : error.end]!r}). Convert the file to UTF-8, for "
            "example with iconv."
        ) from error
    if number == 1:
        text = text.removeprefix("\ufeff")
    return text.rstrip("\r\n")


def read_lines(path: str | Path) -> Iterator[str]:
    """Yields the lines of a UTF-8 file, plain or .gz, without their ends.

    Raises:
        ValueError: If the file is missing, damaged, or not UTF-8.
    """
    with open_binary(path) as file:
        number = 0
        try:
            for number, line in enumerate(file, 1):
                yield decode_line(line, path, number)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(
                f"{path}:{number + 1}: damaged gzip file: {error}"
            ) from error


class TextCorpus:
    """A user's own parallel text, UTF-8, plain or .gz.

    Each split is a list of files for either side, aligned line by line, file by
    file; or, where the target side is left out, files of two columns divided by a
    tab.

    Args:
        source_lang: Language code of the source side.
        target_lang: Language code of the target side.
        sources: Source files of each split.
        targets: Target files of each split; none for tab-separated files.

    Raises:
        ValueError: If a split has no source files, or unequal numbers of files.
    """

    name = "text"

    def __init__(
        self,
        source_lang: str,
        target_lang: str,
        sources: dict[str, Sequence[str]],
        targets: dict[str, Sequence[str]],
    ) -> None:
        self.source_lang = source_lang
        self.target_lang = target_lang
        for split in SPLITS:
            source, target = sources.get(split, ()), targets.get(split, ())
            if target and len(source) != len(target):
                raise ValueError(
                    f"The {split} split needs as many source as target files. "
                    f"Received: {len(source)} source files and {len(target)} "
                    "target files"
                )
        if not sources.get("train"):
            raise ValueError("A text corpus needs at least one training file.")
        self._sources = sources
        self._targets = targets

    def splits(self) -> Sequence[str]:
        """Returns the splits that have files."""
        return [split for split in SPLITS if self._sources.get(split)]

    def read(self, split: str) -> Iterator[Pair]:
        """Yields the pairs of the split's files in order."""
        targets = self._targets.get(split)
        if targets:
            for source, target in zip(self._sources[split], targets, strict=True):
                yield from _read_aligned(source, target)
        else:
            for path in self._sources[split]:
                yield from _read_tsv(path)


def _read_aligned(source: str, target: str) -> Iterator[Pair]:
    sources, targets = read_lines(source), read_lines(target)
    number = 0
    for line in sources:
        number += 1
        counterpart = next(targets, None)
        if counterpart is None:
            raise _misaligned(source, number, target)
        yield line, counterpart
    if next(targets, None) is not None:
        raise _misaligned(target, number + 1, source)


def _misaligned(longer: str, number: int, shorter: str) -> ValueError:
    return ValueError(
        f"{longer}:{number}: this line has no counterpart: {shorter} ends after "
        f"{number - 1} lines. Both files of a pair must have the same number of lines."
    )


def _read_tsv(path: str) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) != 2:
            if not line.strip():
                yield "", ""
                continue
            raise ValueError(
                f"{path}:{number}: expected two columns divided by one tab, found "
                f"{len(columns)} columns."
            )
        yield columns[0], columns[1]


class TfdsCorpus:
    """A translation dataset of tensorflow-datasets, in either direction.

    Args:
        name: How messages and manifests call the corpus.
        source_lang: Language code of the source side, a feature of the dataset.
        target_lang: Language code of the target side, likewise.
        builder: The dataset's builder; its data are downloaded or generated at the
            first use.
        quiet: Whether to hide what tensorflow-datasets prints then. Default False.

    Raises:
        ValueError: If the dataset lacks one of the languages.
    """

    _SPLIT_NAMES: ClassVar = {"train": "train", "dev": "validation", "test": "test"}

    def __init__(
        self,
        name: str,
        source_lang: str,
        target_lang: str,
        builder: Any,
        quiet: bool = False,
    ) -> None:
        self.name = name
        self.source_lang = source_lang
        self.target_lang = target_lang
        self._builder = builder
        self._quiet = quiet
        languages = sorted(builder.info.features)
        for lang in (source_lang, target_lang):
            if lang not in languages:
                raise ValueError(
                    f"{name} has the languages {languages}. Received: {lang!r}"
                )

    def splits(self) -> Sequence[str]:
        """Returns the splits that the dataset has."""
        self._prepare()
        available = self._builder.info.splits
        return [split for split in SPLITS if self._SPLIT_NAMES[split] in available]

    def read(self, split: str) -> Iterator[Pair]:
        """Yields the pairs of a split in the order of its files."""
        import tensorflow_datasets as tfds

        self._prepare()
        dataset = self._builder.as_dataset(
            split=self._SPLIT_NAMES[split],
            shuffle_files=False,
            read_config=tfds.ReadConfig(interleave_cycle_length=1),
        )
        for batch in tfds.as_numpy(dataset.batch(1024)):
            for pair in zip(
                batch[self.source_lang], batch[self.target_lang], strict=True
            ):
                source, target = (text.decode("utf-8") for text in pair)
                # A sentence is a line in every later stage.
                yield " ".join(source.splitlines()), " ".join(target.splitlines())

    def _prepare(self) -> None:
        """Downloads or generates the data, unless that is done already."""
        # Standard output is for results alone.
        sink = io.StringIO() if self._quiet else sys.stderr
        with contextlib.redirect_stdout(sink):
            self._builder.download_and_prepare()


def open_tfds(
    name: str, source_lang: str, target_lang: str, data_dir: str | None = None
) -> TfdsCorpus:
    """Opens a dataset of tensorflow-datasets by name.

    Args:
        name: The dataset's name, such as "wmt14_translate/de-en".
        source_lang: Language code of the source side.
        target_lang: Language code of the target side.
        data_dir: Where tensorflow-datasets keeps its data. Default: its own default.

    Raises:
        ValueError: If there is no such dataset, or it lacks one of the languages.
    """
    import tensorflow_datasets as tfds

    try:
        builder = tfds.builder(name, data_dir=data_dir)
    except (tfds.core.DatasetNotFoundError, ValueError) as error:
        raise ValueError(
            f"tensorflow-datasets has no dataset {name!r}: {error}"
        ) from error
    return TfdsCorpus(f"tfds:{name}", source_lang, target_lang, builder)


def open_cldr(
    source_lang: str,
    target_lang: str,
    data_dir: str | None = None,
    seed: int = 0,
    train_pairs: int = 100_000,
) -> TfdsCorpus:
    """Opens the embedded corpus.

    Args:
        source_lang: A CLDR locale.
        target_lang: Another one.
        data_dir: Where to keep the generated data. Default: where tensorflow-datasets
            keeps its own.
        seed: The sentences are a function of it and of the locales. Default 0.
        train_pairs: Number of training pairs. Default 100,000.

    Raises:
        ValueError: If both locales are the same, or one is unknown.
    """
    import tensorflow_datasets as tfds

    from t2t_keras.data.cldr import Cldr, CldrConfig, check_locales

    tfds.disable_progress_bar()
    check_locales(source_lang, target_lang)
    config = CldrConfig.of(source_lang, target_lang, seed, train_pairs)
    builder = Cldr(config=config, data_dir=data_dir)
    return TfdsCorpus("cldr", source_lang, target_lang, builder, quiet=True)


def open_corpus(
    corpus: str,
    source_lang: str,
    target_lang: str,
    sources: dict[str, Sequence[str]] | None = None,
    targets: dict[str, Sequence[str]] | None = None,
    tfds_data_dir: str | None = None,
    cldr_pairs: int = 100_000,
    cldr_seed: int = 0,
) -> Corpus:
    """Opens any corpus by its description, which a manifest keeps.

    Args:
        corpus: "cldr", "text" or "tfds:NAME".
        source_lang: Language code of the source side.
        target_lang: Language code of the target side.
        sources: Of "text": the source files of each split.
        targets: Of "text": the target files of each split.
        tfds_data_dir: Where tensorflow-datasets keeps its data.
        cldr_pairs: Of "cldr": number of training pairs.
        cldr_seed: Of "cldr": the seed.

    Raises:
        ValueError: If there is no such corpus.
    """
    if corpus == "cldr":
        return open_cldr(source_lang, target_lang, tfds_data_dir, cldr_seed, cldr_pairs)
    if corpus == "text":
        return TextCorpus(source_lang, target_lang, sources or {}, targets or {})
    if corpus.startswith("tfds:"):
        return open_tfds(
            corpus.removeprefix("tfds:"), source_lang, target_lang, tfds_data_dir
        )
    raise ValueError(f"corpus is cldr, text or tfds:NAME. Received: {corpus!r}")
