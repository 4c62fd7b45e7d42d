"""Overlap of held-out text with the training data."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from t2t_keras.data.corpora import Pair
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
        self._sources: set[int] = set()
        self._seen: set[int] = set()

    def add(self, split: str, pairs: Iterable[Pair]) -> None:
        """Adds a held-out split.

        Args:
            split: Name of the split.
            pairs: Sentence pairs of the split.
        """
        held_out = _HeldOut([], [])
        for source, target in pairs:
            if hashed := _hash(source):
                held_out.sources.append(hashed)
                held_out.pairs.append(hash((hashed, _hash(target))))
        self._splits[split] = held_out
        self._sources.update(held_out.sources)

    def watch(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yields training pairs unchanged and records which are also held out."""
        for pair in pairs:
            hashed = _hash(pair[0])
            if hashed in self._sources:
                self._seen |= {hashed, hash((hashed, _hash(pair[1])))}
            yield pair

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


def _hash(text: str) -> int:
    """Returns a hash that ignores white space, or 0 for an empty text."""
    words = " ".join(text.split())
    return hash(words) if words else 0
