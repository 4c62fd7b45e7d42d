"""What the filters removed: numbers and examples."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

_EXAMPLE_CHARS = 200
"""Longer sentences are cut in examples."""


@dataclasses.dataclass(frozen=True)
class Example:
    """A pair that a filter removed.

    Attributes:
        number: Number of the pair in the corpus.
        source: The source, cut to 200 characters.
        target: The target, cut to 200 characters.
    """

    number: int
    source: str
    target: str


@dataclasses.dataclass
class FilterReport:
    """Number of pairs that each filter removed, with the first pairs as examples.

    Reports of consecutive parts of a corpus add up: `first + second`, in the order of
    the corpus. The order of the additions does not matter.

    Attributes:
        pairs: Number of pairs before filtering.
        removed: Number of removed pairs by filter, in the order of the filters. A pair
            counts for the first filter that rejects it.
        examples: The first removed pairs by filter.
        max_examples: Maximum number of examples of each filter.
    """

    pairs: int = 0
    removed: dict[str, int] = dataclasses.field(default_factory=dict)
    examples: dict[str, list[Example]] = dataclasses.field(default_factory=dict)
    max_examples: int = 3

    @property
    def kept(self) -> int:
        """Number of pairs that no filter removed."""
        return self.pairs - sum(self.removed.values())

    def record(
        self,
        name: str,
        removed: np.ndarray,
        sources: Sequence[str],
        targets: Sequence[str],
        first: int = 0,
    ) -> None:
        """Counts pairs that a filter removed and keeps the first ones as examples.

        Args:
            name: Name of the filter.
            removed: Indices of the removed pairs in `sources`, `[k]` integer, in
                ascending order; the pairs follow those recorded before.
            sources: Sources of all pairs of the chunk.
            targets: Targets of all pairs of the chunk.
            first: Number of the first pair of the chunk in the corpus. Default 0.
        """
        shown = removed[: self.max_examples].tolist()
        pairs = ((first + i, (sources[i], targets[i])) for i in shown)
        self.add(name, len(removed), pairs)

    def add(
        self, name: str, count: int, examples: Iterable[tuple[int, tuple[str, str]]]
    ) -> None:
        """Counts pairs that a filter removed and keeps the first ones as examples.

        Args:
            name: Name of the filter.
            count: Number of removed pairs.
            examples: Number in the corpus and text of the first removed pairs, which
                follow those recorded before.
        """
        self.removed[name] = self.removed.get(name, 0) + count
        kept = self.examples.setdefault(name, [])
        for number, texts in examples:
            if len(kept) < self.max_examples:
                kept.append(Example(number, *(text[:_EXAMPLE_CHARS] for text in texts)))

    def __add__(self, later: "FilterReport") -> "FilterReport":
        names = list(dict.fromkeys([*self.removed, *later.removed]))
        size = max(self.max_examples, later.max_examples)
        return FilterReport(
            self.pairs + later.pairs,
            {n: self.removed.get(n, 0) + later.removed.get(n, 0) for n in names},
            {
                n: (self.examples.get(n, []) + later.examples.get(n, []))[:size]
                for n in names
            },
            size,
        )

    def table(self) -> str:
        """Returns the report as a table of plain text, with a line for each filter."""
        rows = [
            (name, f"{count:,}", self._percent(count))
            for name, count in self.removed.items()
        ]
        rows.append(("kept", f"{self.kept:,}", self._percent(self.kept)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for name, count, percent in rows:
            lines.append(
                f"{name:<{widths[0]}}  {count:>{widths[1]}}  {percent:>{widths[2]}}"
            )
            for example in self.examples.get(name, []):
                lines.append(f"    {example.number + 1:,}: {_line(example.source)}")
                lines.append(f"    {' ' * len(f'{example.number + 1:,}')}  ")
                lines[-1] += _line(example.target)
        return "\n".join(line.rstrip() for line in lines)

    def _percent(self, count: int) -> str:
        return f"{100 * count / self.pairs:.2f}%" if self.pairs else ""

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as plain values, serializable as JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Returns the report that `to_dict` returned as plain values."""
        examples = {
            name: [Example(**example) for example in found]
            for name, found in values["examples"].items()
        }
        return cls(**{**values, "examples": examples})


def _line(text: str) -> str:
    """Returns text on one line, without control characters that affect a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)
