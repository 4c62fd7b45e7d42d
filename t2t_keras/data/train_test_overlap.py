"""Overlap of held-out text with the training data."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from t2t_keras.data.corpora import Chunk
from t2t_keras.plurals import counted


class _HeldOut(NamedTuple):
    pairs: list[int]
    sources: list[int]


class Overlap:
    """Counts held-out pairs and source sentences that also occur in training.

    Texts are compared without regard to white space. Only hashes of the held-out text
    are kept in memory. Pairs with an empty source are ignored.
    """

    def __init__(self) -> None:
        self._splits: dict[str, _HeldOut] = {}
        self._seen: set[int] = set()

    def add(self, split: str, chunks: Iterable[Chunk]) -> None:
        """Adds a held-out split.

        Args:
            split: Name of the split.
            chunks: Sentence pairs of the split.
        """
        held_out = _HeldOut([], [])
        for sources, targets in chunks:
            for source, target in zip(sources, targets, strict=True):
                if words := _words(source):
                    held_out.sources.append(_hash(words))
                    held_out.pairs.append(_hash(words, _words(target)))
        self._splits[split] = held_out

    @property
    def splits(self) -> list[str]:
        """The names of the held-out splits."""
        return list(self._splits)

    @property
    def sources(self) -> frozenset[int]:
        """The hashes of all held-out sources, for `matching_hashes`."""
        sources = (held_out.sources for held_out in self._splits.values())
        return frozenset().union(*sources)

    def record(self, found: Iterable[int]) -> None:
        """Records hashes that `matching_hashes` has found in the training text."""
        self._seen.update(found)

    def counts(self, split: str) -> dict[str, int]:
        """Returns the number of "pairs" and "sources" of a split found in training."""
        held_out = self._splits[split]
        return {
            name: sum(hashed in self._seen for hashed in hashes)
            for name, hashes in held_out._asdict().items()
        }

    def note(self, split: str) -> str:
        """Returns a warning about a split, or an empty string without any overlap."""
        found, lines = self.counts(split), len(self._splits[split].pairs)
        if not found["sources"]:
            return ""
        pairs = counted(found["pairs"], "also occurs", "also occur")
        sources = counted(
            found["sources"], "source sentence does", "source sentences do"
        )
        return (
            f"{split}: of {counted(lines, 'pair')}, {pairs} in train, and {sources}. "
            "Scores on them overstate the quality on new text."
        )


def matching_hashes(
    held_out: frozenset[int], sources: Sequence[str], targets: Sequence[str]
) -> set[int]:
    """Returns the hashes of the pairs and sources whose source is held out.

    Args:
        held_out: `Overlap.sources`.
        sources: Sources of training pairs.
        targets: Their targets.
    """
    found: set[int] = set()
    if not held_out:
        return found
    for number, source in enumerate(sources):
        words = _words(source)
        if (hashed := _hash(words)) in held_out:
            found |= {hashed, _hash(words, _words(targets[number]))}
    return found


def _words(text: str) -> str:
    """Returns a text with single spaces."""
    return " ".join(text.split())


def _hash(*texts: str) -> int:
    """Returns a hash of texts that is the same in all processes."""
    content = "\0".join(texts).encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())
