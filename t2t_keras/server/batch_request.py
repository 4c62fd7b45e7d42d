"""A request to a batch: which of its rows have been given away, and what came back."""

import contextlib
import math
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from typing import Any, NamedTuple

import numpy as np

from t2t_keras.server.saved_model import Arrays, bytes_of
from t2t_keras.server.serving_errors import too_large_answer


class Rows(NamedTuple):
    """What is known of the rows of a request that may share a batch.

    Attributes:
        lengths: What each takes of a batch's length, `[rows]`.
        padding: What the outputs are padded with, by name, where rows of different
            batches differ in shape; None if the request may not be divided.
        same_as: For each row the first equal one, `[rows]`, where equal rows have equal
            outputs: they are computed once. None if they may differ.
    """

    lengths: np.ndarray
    padding: Mapping[str, Any] | None = None
    same_as: np.ndarray | None = None


class RequestPart(NamedTuple):
    """Some rows of a request, for one batch.

    Attributes:
        request: Whose they are.
        rows: Their places in the request, `[rows]`.
        inputs: What they are.
    """

    request: "BatchRequest"
    rows: np.ndarray
    inputs: Arrays


class BatchRequest:
    """A request that waits for its batches.

    It can be divided where the rows of its outputs do not depend on each other. Its
    longest rows go first, so that each batch has rows of similar length.

    Args:
        inputs: Arrays, of one and the same first axis where it may share a batch.
        rows: What is known of its rows; None if it may not share a batch.
        deadline: When its answer is not wanted any more, as of `time.monotonic`.
        max_answer_bytes: The most bytes of its outputs.

    Attributes:
        future: The outputs to come. It can be cancelled until they are there.
        enqueued: When it came, as of `time.monotonic`.
        deadline: As given.
        rows: How many are computed; 1 for a request that is not one of rows.
        left: How many of them have not been given to a batch.
    """

    def __init__(
        self,
        inputs: Arrays,
        rows: Rows | None = None,
        deadline: float = math.inf,
        max_answer_bytes: int | None = None,
    ) -> None:
        self.future: Future[Arrays] = Future()
        self.enqueued = time.monotonic()
        self.deadline = deadline
        lengths = np.zeros(0, int) if rows is None else rows.lengths
        self._copies: np.ndarray | None = None
        if rows is not None and rows.same_as is not None:
            firsts, copies = np.unique(rows.same_as, return_inverse=True)
            if len(firsts) < len(lengths):
                self._copies, lengths = copies, lengths[firsts]
                inputs = {name: array[firsts] for name, array in inputs.items()}
        self.rows = self.left = max(len(lengths), 1)
        self._inputs = inputs
        self._padding = rows.padding if rows is not None else None
        self._max_answer_bytes = max_answer_bytes
        self._bytes = 0
        self._answered: list[tuple[np.ndarray, Arrays]] = []
        self._lock = threading.Lock()
        self._order = np.zeros(1, int)
        self._lengths = np.zeros(1, int)
        if len(lengths):
            self._order = np.argsort(-lengths, kind="stable")
            self._lengths = lengths[self._order]

    @property
    def length(self) -> int:
        """The length of the longest row that is left."""
        return int(self._lengths[self.rows - self.left])

    @property
    def is_begun(self) -> bool:
        """Whether some of its rows have been given to a batch."""
        return self.left < self.rows

    def take(self, room: int, is_first: bool) -> RequestPart | None:
        """Gives rows to a batch: all that are left, or as many as there is room for.

        Args:
            room: How many rows the batch has room for.
            is_first: Whether it is empty. Otherwise nothing is divided.

        Returns:
            The rows; None if the request has to wait for the next batch.
        """
        if room < self.left and not is_first:
            return None
        if not self.is_begun and (room >= self.rows or self._padding is None):
            self.left = 0
            return RequestPart(self, np.arange(self.rows), self._inputs)
        begun = self.rows - self.left
        rows = self._order[begun : begun + room]
        self.left -= len(rows)
        inputs = {name: array[rows] for name, array in self._inputs.items()}
        return RequestPart(self, rows, inputs)

    def add(self, part: RequestPart, outputs: Arrays) -> None:
        """Takes the outputs of a part; the last one completes the answer."""
        size = bytes_of(outputs)
        if self._copies is not None:
            size = size * np.isin(self._copies, part.rows).sum() // len(part.rows)
        with self._lock:
            self._bytes += size
            self._answered.append((part.rows, outputs))
            missing = self.rows - sum(len(rows) for rows, _ in self._answered)
        if self._max_answer_bytes is not None and self._bytes > self._max_answer_bytes:
            self.fail(too_large_answer(self._max_answer_bytes))
        elif not missing:
            outputs = _together(self._answered, self.rows, self._padding or {})
            if self._copies is not None:
                outputs = {name: array[self._copies] for name, array in outputs.items()}
            # Whoever asked may have gone away.
            with contextlib.suppress(InvalidStateError):
                self.future.set_result(outputs)

    def fail(self, error: Exception) -> None:
        """Ends the request without an answer, unless it has ended."""
        with contextlib.suppress(InvalidStateError):
            # Its traceback refers to the inputs, and they would stay in memory.
            self.future.set_exception(error.with_traceback(None))


def _together(
    parts: list[tuple[np.ndarray, Arrays]], rows: int, padding: Mapping[str, Any]
) -> Arrays:
    """Puts the outputs of parts in the order of the request's rows.

    Args:
        parts: Places of rows, and their outputs.
        rows: How many rows there are.
        padding: What to fill up with, by name.
    """
    if len(parts) == 1:
        return parts[0][1]
    outputs = {}
    for name in parts[0][1]:
        shapes = [part[name].shape[1:] for _, part in parts]
        shape = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
        array = np.full((rows, *shape), padding.get(name, 0), parts[0][1][name].dtype)
        for places, part in parts:
            inside: tuple[Any, ...] = tuple(map(slice, part[name].shape[1:]))
            array[(places, *inside)] = part[name]
        outputs[name] = array
    return outputs


def equal_rows(inputs: Arrays) -> np.ndarray:
    """Returns for each row the first one that is equal, `[rows]`.

    Args:
        inputs: Arrays of one and the same first axis.
    """
    firsts: dict[Any, int] = {}
    columns = [
        [row.tobytes() if row.dtype != object else tuple(row.flat) for row in array]
        if array.ndim > 1
        else array.tolist()
        for array in inputs.values()
    ]
    rows = zip(*columns, strict=True)
    return np.array([firsts.setdefault(row, n) for n, row in enumerate(rows)], int)
