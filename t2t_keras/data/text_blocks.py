"""Blocks: the text of a corpus in files of a fixed number of pairs."""

import dataclasses
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from t2t_keras.data.corpora import Chunk, Pair
from t2t_keras.data.text_lines import CHUNK_LINES


@dataclasses.dataclass(frozen=True)
class TextBlock:
    """Consecutive pairs of a corpus, as two files with a sentence per line.

    Attributes:
        source_path: File of the sources.
        target_path: File of the targets.
        pairs: Number of pairs in the files.
        keep: File of a NumPy array, `[pairs]` bool, True for the pairs to read. Default
            None (all).
        tag: Token before each source. Default "" (none).
        weight: Number of times that each pair is written. Default 1.
    """

    source_path: Path
    target_path: Path
    pairs: int
    keep: Path | None = None
    tag: str = ""
    weight: float = 1.0

    def mask(self) -> np.ndarray:
        """Returns which pairs to read, `[pairs]` bool."""
        return np.ones(self.pairs, bool) if self.keep is None else np.load(self.keep)

    def read_chunks(self, mask: np.ndarray | None = None) -> Iterator[Chunk]:
        """Yields the pairs to read in chunks of a few thousand.

        Args:
            mask: `[pairs]` bool, True for the pairs to read. Default `mask()`.
        """
        mask = self.mask() if mask is None else mask
        with (
            self.source_path.open(encoding="utf-8", newline="\n") as sources,
            self.target_path.open(encoding="utf-8", newline="\n") as targets,
        ):
            for start in range(0, self.pairs, CHUNK_LINES):
                selected = mask[start : start + CHUNK_LINES]
                source, target = (
                    "".join(itertools.islice(file, len(selected)))[:-1].split("\n")
                    for file in (sources, targets)
                )
                if selected.all():
                    yield source, target
                elif selected.any():
                    yield (
                        list(itertools.compress(source, selected.tolist())),
                        list(itertools.compress(target, selected.tolist())),
                    )

    def read(self, rows: np.ndarray) -> list[Pair]:
        """Returns the pairs at some rows, in ascending order."""
        mask = np.zeros(self.pairs, bool)
        mask[rows] = True
        chunks = self.read_chunks(mask) if len(rows) else ()
        return [pair for sides in chunks for pair in zip(*sides, strict=True)]


def write_blocks(
    chunks: Iterable[Chunk],
    path: Callable[[int, str], Path],
    pairs_per_block: int = sys.maxsize,
) -> Iterator[TextBlock]:
    """Writes text to blocks.

    Args:
        chunks: The text.
        path: Returns the file of a block, given its number and "source" or "target".
        pairs_per_block: Number of pairs of each block but the last. Default: all pairs
            in one block.

    Yields:
        Each block after it is written, and one without pairs if there is no text.
    """
    remaining = iter(chunks)
    rest: Chunk = [], []
    for number in itertools.count():
        rest = rest if rest[0] else next(remaining, ([], []))
        if number and not rest[0]:
            return
        paths = path(number, "source"), path(number, "target")
        pairs = 0
        with paths[0].open("wb") as source_file, paths[1].open("wb") as target_file:
            while rest[0] and pairs < pairs_per_block:
                space = pairs_per_block - pairs
                for file, lines in zip((source_file, target_file), rest, strict=True):
                    file.write(_joined(lines[:space]))
                pairs += len(rest[0][:space])
                rest = rest[0][space:], rest[1][space:]
                rest = rest if rest[0] else next(remaining, ([], []))
        yield TextBlock(*paths, pairs)


def _joined(lines: list[str]) -> bytes:
    text = "\n".join(lines)
    if text.count("\n") >= len(lines):
        # Tokenizers treat a line feed inside a sentence as a space.
        text = "\n".join(line.replace("\n", " ") for line in lines)
    return f"{text}\n".encode()
