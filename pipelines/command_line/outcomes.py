"""Counts input lines by status and reports problems at the end of a stage."""

import collections
from collections.abc import Collection, Container, Iterable, Sequence

from t2t_keras.decoding import translation_status as states
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line.exit_status import EXIT_FAILURE, EXIT_USAGE
from t2t_keras.plurals import counted

_LISTED = 10
_EXITS = {
    states.INVALID: EXIT_USAGE,
    states.MODEL_ERROR: EXIT_FAILURE,
    states.NOT_FOUND: EXIT_USAGE,
}


class Outcomes:
    """Counts lines by their status.

    Args:
        name: Name of the input, for messages.
        done: Past participle for what the stage does with a line, such as "translated".
        max_length: Maximum input length, such as "1,024 tokens".

    Attributes:
        counts: Number of lines with each status.
    """

    def __init__(self, name: str, done: str, max_length: str) -> None:
        self._name = name
        self._done = done
        self._max_length = max_length
        self._number = 0
        self._first: dict[str, list[int]] = collections.defaultdict(list)
        self.counts: collections.Counter[str] = collections.Counter()

    def add(self, statuses: Iterable[str]) -> None:
        """Adds the statuses of the next lines."""
        for status in statuses:
            self._number += 1
            self.counts[status] += 1
            if self.counts[status] <= _LISTED:
                self._first[status].append(self._number)

    def report(self, reported: Container[str] = ()) -> int:
        """Reports truncated lines and lines that were not processed.

        Args:
            reported: Statuses that have been reported already. Default: none.

        Returns:
            The exit status: `EXIT_FAILURE` if the model is broken, `EXIT_USAGE` if the
            input has errors, otherwise 0.
        """
        exits = {0}
        for status, count in sorted(self.counts.items()):
            if status not in reported:
                self._report(status, count)
            exits.add(_EXITS.get(status, 0))
        return worst_status(exits)

    def _report(self, status: str, count: int) -> None:
        first = self._first[status]
        not_done = f"Not {self._done}: {_listed(first, count)}."
        if status == states.TOO_LONG:
            lines = counted(count, "line was", "lines were")
            stage.report(
                f"{lines} longer than {self._max_length}: cut and {self._done}."
            )
        elif status == states.INVALID:
            _report_invalid(self._name, first, count, f"not {self._done}")
        elif status == states.MODEL_ERROR:
            stage.report(f"error: {states.BROKEN_MODEL} {not_done}")
        elif status == states.NOT_FOUND:
            stage.report(
                "error: No output satisfies --min_length, --no_repeat_ngram and the "
                f"length limits at the same time. {not_done}"
            )
        elif status not in (states.OK, states.EMPTY):
            lines = counted(count, "line has", "lines have")
            stage.report(f"{lines} status {status}.")


def _report_invalid(name: str, first: Sequence[int], count: int, outcome: str) -> None:
    """Reports lines that are not valid UTF-8.

    Args:
        name: Name of the file.
        first: Numbers of the first such lines.
        count: Number of such lines.
        outcome: What the stage did with them.
    """
    for line in first[:_LISTED]:
        stage.report(f"error: {name}:{line}: invalid UTF-8: {outcome}.")
    if count > _LISTED:
        stage.report(f"error: {name}: {count:,} lines in total are invalid UTF-8.")


def report_invalid_lines(name: str, lines: Sequence[str], outcome: str) -> int:
    """Reports the lines of a file that are not valid UTF-8.

    Args:
        name: Name of the file.
        lines: Its lines, as returned by `read_lines`.
        outcome: What the stage does with such a line.

    Returns:
        The exit status.
    """
    from t2t_keras.data.text_lines import is_text

    invalid = [number for number, line in enumerate(lines, 1) if not is_text(line)]
    _report_invalid(name, invalid, len(invalid), outcome)
    return EXIT_USAGE if invalid else 0


def worst_status(exits: Collection[int]) -> int:
    """Returns the exit status of a stage that had several problems."""
    # A failure, such as a broken model, is worse than an error in the input.
    return EXIT_FAILURE if EXIT_FAILURE in exits else max(exits)


def _listed(first: Sequence[int], count: int) -> str:
    """Returns "line 2" or "lines 2, 5, 9 and 7 more"."""
    listed = ", ".join(map(str, first))
    if count > len(first):
        listed += f" and {count - len(first):,} more"
    return f"line {listed}" if count == 1 else f"lines {listed}"
