"""Parallel corpora: sentence pairs behind one small interface."""

import contextlib
import io
import itertools
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

from t2t_keras.data.input_streams import Streams
from t2t_keras.data.text_lines import CHUNK_LINES, align_chunks, read_chunks
from t2t_keras.errors import UserError
from t2t_keras.files import user_path
from t2t_keras.plurals import counted

Pair = tuple[str, str]
"""A source sentence and its translation."""

Chunk = tuple[list[str], list[str]]
"""Source sentences and their translations."""

SPLITS = ("train", "dev", "test")

_MAX_WEIGHT = 1000


class CorpusPart(NamedTuple):
    """A part of the training text.

    Attributes:
        chunks: The pairs in chunks of a few thousand.
        tag: Token before each source. Default "" (none).
        weight: Number of times that each pair occurs in an epoch. With a fraction, some
            pairs occur once more than others. Default 1.
    """

    chunks: Iterator[Chunk]
    tag: str = ""
    weight: float = 1.0


class Corpus(ABC):
    """Interface of a parallel corpus.

    Attributes:
        name: Name of the corpus in messages and manifests.
        source_lang: Language code of the source side.
        target_lang: Language code of the target side.
    """

    name: str
    source_lang: str
    target_lang: str

    @abstractmethod
    def splits(self) -> Sequence[str]:
        """Returns the members of `SPLITS` that the corpus has."""

    @abstractmethod
    def read(self, split: str) -> Iterator[Pair]:
        """Yields the sentence pairs of a split, always in the same order.

        Raises:
            UserError: If the data are invalid. The message names the file and the
                line.
        """

    def read_chunks(self, split: str) -> Iterator[Chunk]:
        """Yields the sentence pairs of a split in chunks of a few thousand.

        Raises:
            UserError: As for `read`.
        """
        pairs = iter(self.read(split))
        while chunk := list(itertools.islice(pairs, CHUNK_LINES)):
            sources, targets = zip(*chunk, strict=True)
            yield list(sources), list(targets)

    def train_parts(self) -> Iterator[CorpusPart]:
        """Yields the parts of the training text, in order.

        Raises:
            UserError: As for `read`.
        """
        yield CorpusPart(self.read_chunks("train"))

    @property
    def tags(self) -> list[str]:
        """The tags of all parts."""
        return []


class TextCorpus(Corpus):
    """Parallel text in UTF-8 files, plain or .gz.

    Each split is a list of source files and a list of target files, aligned line by
    line. Without target files, the source files hold two columns separated by a tab.

    Args:
        source_lang: Language code of the source side.
        target_lang: Language code of the target side.
        sources: Source files of each split.
        targets: Target files of each split. Empty for tab-separated files.
        train_weights: Weight of each training file; see `CorpusPart`. Default none (1
            for all).
        train_tags: Tag of each training file, such as "<bt>", or "". Default none.

    Raises:
        UserError: If there are no training files, a split has different numbers of
            source and target files, a stream is named twice, or the weights or tags are
            invalid.
    """

    name = "text"

    def __init__(
        self,
        source_lang: str,
        target_lang: str,
        sources: dict[str, Sequence[str]],
        targets: dict[str, Sequence[str]],
        train_weights: Sequence[float] = (),
        train_tags: Sequence[str] = (),
    ) -> None:
        self.source_lang = source_lang
        self.target_lang = target_lang
        for split in SPLITS:
            source, target = sources.get(split, ()), targets.get(split, ())
            if target and len(source) != len(target):
                raise UserError(
                    f"The {split} split needs the same number of source and target "
                    f"files. Received: {counted(len(source), 'source file')} and "
                    f"{counted(len(target), 'target file')}"
                )
        if not sources.get("train"):
            raise UserError("A text corpus needs at least one training file.")
        _check_parts(len(sources["train"]), train_weights, train_tags)
        self._weights = train_weights
        self._tags = train_tags
        self._sources = sources
        self._targets = targets
        self._streams = Streams(
            path for files in (*sources.values(), *targets.values()) for path in files
        )

    def splits(self) -> Sequence[str]:
        """Returns the splits that have files."""
        return [split for split in SPLITS if self._sources.get(split)]

    def read(self, split: str) -> Iterator[Pair]:
        """Yields the pairs of the split's files in order."""
        for sources, targets in self.read_chunks(split):
            yield from zip(sources, targets, strict=True)

    def read_chunks(self, split: str) -> Iterator[Chunk]:
        """Yields the pairs of the split's files in order, in chunks."""
        for file in range(len(self._sources[split])):
            yield from self._read_pairs(split, file)

    def train_parts(self) -> Iterator[CorpusPart]:
        """Yields a part for each training file, if they have weights or tags."""
        if not (self._weights or self._tags):
            yield from super().train_parts()
            return
        for file in range(len(self._sources["train"])):
            yield CorpusPart(
                self._read_pairs("train", file),
                self._tags[file] if self._tags else "",
                self._weights[file] if self._weights else 1.0,
            )

    @property
    def tags(self) -> list[str]:
        """The tags of all training files that have one."""
        return sorted({*self._tags} - {""})

    def _read_pairs(self, split: str, file: int) -> Iterator[Chunk]:
        source, targets = self._sources[split][file], self._targets.get(split)
        if not targets:
            return self._read_tsv(source)
        target = targets[file]
        sides = self._read_file(source), self._read_file(target)
        return align_chunks(*sides, source, target)

    def _read_file(self, path: str) -> Iterator[list[str]]:
        return read_chunks(path, self._streams.open(path))

    def _read_tsv(self, path: str) -> Iterator[Chunk]:
        number = 0
        for lines in self._read_file(path):
            sides: Chunk = [], []
            for line in lines:
                number += 1
                columns = line.split("\t") if line.strip() else ["", ""]
                if len(columns) != 2:
                    raise UserError(
                        f"{path}:{number}: expected two columns separated by a tab, "
                        f"found {len(columns)}. If each language has its own file, set "
                        "both flags, such as --train_source and --train_target."
                    )
                for side, text in zip(sides, columns, strict=True):
                    side.append(text)
            yield sides


def _check_parts(files: int, weights: Sequence[float], tags: Sequence[str]) -> None:
    """Checks the weights and tags of training files."""
    for name, values in (("weights", weights), ("tags", tags)):
        if values and len(values) != files:
            raise UserError(
                f"--train_{name} must have a value for each of the "
                f"{counted(files, 'training file')}. Received: {len(values)}"
            )
    for weight in weights:
        if not 0 < weight < _MAX_WEIGHT:
            raise UserError(
                f"Weights must be between 0 and {_MAX_WEIGHT}, exclusive. Received: "
                f"{weight}"
            )
    for tag in tags:
        if tag and not (
            tag.isprintable() and len(tag.split()) == 1 == len(tag.split(" "))
        ):
            raise UserError(f"A tag must be a single word. Received: {tag!r}")


class TfdsCorpus(Corpus):
    """A tensorflow-datasets translation dataset, in either direction.

    Args:
        name: Name of the corpus in messages and manifests.
        source_lang: Language code of the source side; a feature of the dataset.
        target_lang: Language code of the target side; a feature of the dataset.
        builder: Builder of the dataset. The data are downloaded or generated on first
            use.
        quiet: Whether to hide the output of tensorflow-datasets. Default False.

    Raises:
        UserError: If the dataset lacks one of the languages.
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
                raise UserError(
                    f"{name} has only the languages {languages}. Received: {lang!r}"
                )

    def splits(self) -> Sequence[str]:
        """Returns the splits that the dataset has."""
        self._prepare()
        available = self._builder.info.splits
        return [split for split in SPLITS if self._SPLIT_NAMES[split] in available]

    def read(self, split: str) -> Iterator[Pair]:
        """Yields the pairs of a split in file order."""
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
                try:
                    source, target = (text.decode("utf-8") for text in pair)
                except UnicodeDecodeError as error:
                    raise UserError(
                        f"{self.name}: the {split} split has a pair that is not valid "
                        f"UTF-8: {pair}"
                    ) from error
                # Later stages store one sentence per line.
                yield " ".join(source.splitlines()), " ".join(target.splitlines())

    def _prepare(self) -> None:
        """Downloads or generates the data if they are missing."""
        # Standard output is reserved for results.
        sink = io.StringIO() if self._quiet else sys.stderr
        directory = self._builder.data_dir
        with contextlib.redirect_stdout(sink), user_path(directory, "written to"):
            try:
                self._builder.download_and_prepare()
            except FileExistsError:  # Another process has just prepared the same data.
                self._builder.info.read_from_directory(self._builder.data_dir)
