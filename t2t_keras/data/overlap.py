"""How much of the held-out text has been seen in training."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from t2t_keras.counted import counted
from t2t_keras.data.corpora import Pair


class _Held(NamedTuple):
    sources: list[int]
    pairs: list[int]


class Overlap:
    """Counts held-out pairs, and sources of them, that also occur in training.

    Texts are equal if they are apart from white space. What is kept in memory are
    hashes of the held-out text alone. Empty sources are left out.
    """

    def __init__(self) -> None:
        self._splits: dict[str, _Held] = {}
        self._sources: set[int] = set()
        self._seen: set[int] = set()

    def add(self, split: str, pairs: Iterable[Pair]) -> None:
        """Remembers a held-out split.

        Args:
            split: Its name.
            pairs: Its sentence pairs.
        """
        held = _Held([], [])
        for source, target in pairs:
            if hashed := _hash(source):
                held.sources.append(hashed)
                held.pairs.append(hash((hashed, _hash(target))))
        self._splits[split] = held
        self._sources.update(held.sources)

    def watch(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yields training pairs as they are, and notes which are held out, too."""
        for pair in pairs:
            hashed = _hash(pair[0])
            if hashed in self._sources:
                self._seen |= {hashed, hash((hashed, _hash(pair[1])))}
            yield pair

    def counts(self, split: str) -> dict[str, int]:
        """Returns how many "pairs" and "sources" of a split training has, too."""
        held = self._splits[split]
        return {
            name: sum(hashed in self._seen for hashed in hashes)
            for name, hashes in (("pairs", held.pairs), ("sources", held.sources))
        }

    def note(self, split: str) -> str:
        """Returns what to tell of a split; an empty string if nothing is repeated."""
        found, lines = self.counts(split), len(self._splits[split].pairs)
        if not found["sources"]:
            return ""
        pairs = counted(found["pairs"], "also occurs", "also occur")
        sources = counted(
            found["sources"], "source sentence does", "source sentences do"
        )
        return (
            f"{split}: of {counted(lines, 'pair')}, {pairs} in train, and {sources}. "
            "Scores on these overstate how well new text is translated."
        )


def _hash(text: str) -> int:
    """Returns 0 for no text."""
    words = " ".join(text.split())
    return hash(words) if words else 0
