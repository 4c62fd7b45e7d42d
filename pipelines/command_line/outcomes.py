"""What has become of a stage's lines: counted, and told of at its end."""

import collections
from collections.abc import Collection, Container, Iterable, Sequence

from t2t_keras.counted import counted
from t2t_keras.decoding import status as states
from t2t_keras.pipelines import stage

_LISTED = 10
_EXITS = {
    states.INVALID: stage.EXIT_USAGE,
    states.MODEL_ERROR: stage.EXIT_FAILURE,
    states.NOT_FOUND: stage.EXIT_USAGE,
}


class Outcomes:
    """Counts lines by their status.

    Args:
        name: Where the lines are from.
        done: What the stage does with lines, such as "translated".
        longest: The greatest length, as in "1,024 tokens".

    Attributes:
        counts: How many lines have each status.
    """

    def __init__(self, name: str, done: str, longest: str) -> None:
        self._name = name
        self._done = done
        self._longest = longest
        self._number = 0
        self._first: dict[str, list[int]] = collections.defaultdict(list)
        self.counts: collections.Counter[str] = collections.Counter()

    def add(self, statuses: Iterable[str]) -> None:
        """Takes note of the next lines."""
        for status in statuses:
            self._number += 1
            self.counts[status] += 1
            if self.counts[status] <= _LISTED:
                self._first[status].append(self._number)

    def tell(self, told: Container[str] = ()) -> int:
        """Reports the lines with which there was something the matter.

        Args:
            told: Statuses that have been told of already. Default none.

        Returns:
            The exit status: that of a failure if the model is broken, that of a mistake
            in the input if there was one, or 0.
        """
        exits = {0}
        for status, count in sorted(self.counts.items()):
            if status not in told:
                self._tell(status, count)
            exits.add(_EXITS.get(status, 0))
        return worst(exits)

    def _tell(self, status: str, count: int) -> None:
        first = self._first[status]
        undone = f"Not {self._done}: {_listed(first, count)}."
        if status == states.TOO_LONG:
            lines = counted(count, "line was", "lines were")
            stage.report(
                f"{lines} longer than {self._longest} and {self._done} up to there."
            )
        elif status == states.INVALID:
            _tell_invalid(self._name, first, count, f"not {self._done}")
        elif status == states.MODEL_ERROR:
            stage.report(f"error: {states.BROKEN_MODEL} {undone}")
        elif status == states.NOT_FOUND:
            stage.report(
                "error: No output obeys --min_length, --no_repeat_ngram and the limits "
                f"of its length together. {undone}"
            )
        elif status not in (states.OK, states.EMPTY):
            lines = counted(count, "line has", "lines have")
            stage.report(f"{lines} the status {status}.")


def _tell_invalid(name: str, first: Sequence[int], count: int, outcome: str) -> None:
    """Reports lines that are not UTF-8.

    Args:
        name: Where they are from.
        first: Their numbers, of the first ones at least.
        count: How many there are.
        outcome: What has become of them.
    """
    for line in first[:_LISTED]:
        stage.report(f"error: {name}:{line}: invalid UTF-8: {outcome}.")
    if count > _LISTED:
        stage.report(f"error: {name}: {count:,} lines in all are invalid UTF-8.")


def tell_invalid_lines(name: str, lines: Sequence[str], outcome: str) -> int:
    """Reports those of some lines that were not UTF-8 when they were read.

    Args:
        name: Where they are from.
        lines: As of `read_lines`.
        outcome: What becomes of such a line.

    Returns:
        The exit status.
    """
    from t2t_keras.data.lines import is_text

    invalid = [number for number, line in enumerate(lines, 1) if not is_text(line)]
    _tell_invalid(name, invalid, len(invalid), outcome)
    return stage.EXIT_USAGE if invalid else 0


def worst(exits: Collection[int]) -> int:
    """Returns the exit status of a stage with which several things were the matter."""
    # A failure, such as a broken model's, is worse than a mistake in the input.
    return stage.EXIT_FAILURE if stage.EXIT_FAILURE in exits else max(exits)


def _listed(first: Sequence[int], count: int) -> str:
    """Returns "line 2" or "lines 2, 5, 9 and 7 more"."""
    listed = ", ".join(map(str, first))
    if count > len(first):
        listed += f" and {count - len(first):,} more"
    return f"line {listed}" if count == 1 else f"lines {listed}"
