"""A request in the batcher: its waiting rows and its computed outputs."""

import contextlib
import math
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from typing import Any, NamedTuple

import numpy as np

from t2t_keras.server.saved_model import Arrays, bytes_of
from t2t_keras.server.serving_errors import too_large_response


class Rows(NamedTuple):
    """Properties of the rows of a request that may share a batch.

    Attributes:
        lengths: Length of each row, `[rows]`; counts towards a batch's maximum length.
        padding: Padding values by output name, for outputs whose shapes differ between
            batches; None if the request must not be split.
        same_as: Index of the first equal row for each row, `[rows]`, so that duplicates
            are computed once; None if equal rows may have different outputs.
    """

    lengths: np.ndarray
    padding: Mapping[str, Any] | None = None
    same_as: np.ndarray | None = None


class RequestPart(NamedTuple):
    """Rows of a request that go into one batch.

    Attributes:
        request: Request of the rows.
        rows: Indices of the rows in the request, `[rows]`.
        inputs: Inputs of the rows by name.
    """

    request: "BatchRequest"
    rows: np.ndarray
    inputs: Arrays


class BatchRequest:
    """A request that waits for its batches.

    A request can be split into several batches if its output rows are independent. Its
    longest rows go first, so that each batch has rows of similar length.

    Args:
        inputs: Arrays by name, with equal first dimensions if the request may share a
            batch.
        rows: Properties of the rows; None if the request must not share a batch.
        deadline: Time after which the result is no longer needed, on the clock of
            `time.monotonic`.
        max_response_bytes: Maximum size of the outputs in bytes.

    Attributes:
        future: Future outputs. It can be cancelled until they are complete.
        enqueued: Time of arrival, on the clock of `time.monotonic`.
        deadline: The argument.
        rows: Number of rows to compute; 1 for a request without rows.
        left: Number of rows that no batch has taken yet.
    """

    def __init__(
        self,
        inputs: Arrays,
        rows: Rows | None = None,
        deadline: float = math.inf,
        max_response_bytes: int | None = None,
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
        self._max_response_bytes = max_response_bytes
        self._bytes = 0
        self._results: list[tuple[np.ndarray, Arrays]] = []
        self._lock = threading.Lock()
        self._order = np.zeros(1, int)
        self._lengths = np.zeros(1, int)
        if len(lengths):
            self._order = np.argsort(-lengths, kind="stable")
            self._lengths = lengths[self._order]

    @property
    def length(self) -> int:
        """Length of the longest row that no batch has taken yet."""
        return int(self._lengths[self.rows - self.left])

    @property
    def is_started(self) -> bool:
        """Whether a batch has taken some of the rows."""
        return self.left < self.rows

    def take(self, capacity: int, is_first: bool) -> RequestPart | None:
        """Takes rows for a batch: all remaining rows, or as many as fit.

        Args:
            capacity: Number of rows that fit into the batch.
            is_first: Whether the batch is empty. Otherwise the request is not split.

        Returns:
            The rows; None if the request has to wait for the next batch.
        """
        if capacity < self.left and not is_first:
            return None
        if not self.is_started and (capacity >= self.rows or self._padding is None):
            self.left = 0
            return RequestPart(self, np.arange(self.rows), self._inputs)
        start = self.rows - self.left
        rows = self._order[start : start + capacity]
        self.left -= len(rows)
        inputs = {name: array[rows] for name, array in self._inputs.items()}
        return RequestPart(self, rows, inputs)

    def add(self, part: RequestPart, outputs: Arrays) -> None:
        """Adds the outputs of a part; the last part completes the result."""
        size = bytes_of(outputs)
        if self._copies is not None:
            size = size * np.isin(self._copies, part.rows).sum() // len(part.rows)
        with self._lock:
            self._bytes += size
            self._results.append((part.rows, outputs))
            missing = self.rows - sum(len(rows) for rows, _ in self._results)
        if (
            self._max_response_bytes is not None
            and self._bytes > self._max_response_bytes
        ):
            self.fail(too_large_response(self._max_response_bytes))
        elif not missing:
            outputs = _merge(self._results, self.rows, self._padding or {})
            if self._copies is not None:
                outputs = {name: array[self._copies] for name, array in outputs.items()}
            # The client may have cancelled the request.
            with contextlib.suppress(InvalidStateError):
                self.future.set_result(outputs)

    def fail(self, error: Exception) -> None:
        """Fails the request, unless it is already complete."""
        with contextlib.suppress(InvalidStateError):
            # The traceback would keep the inputs in memory.
            self.future.set_exception(error.with_traceback(None))


def _merge(
    parts: list[tuple[np.ndarray, Arrays]], rows: int, padding: Mapping[str, Any]
) -> Arrays:
    """Merges the outputs of parts in the order of the request's rows.

    Args:
        parts: Row indices and outputs of each part.
        rows: Number of rows of the request.
        padding: Padding values by output name.
    """
    if len(parts) == 1:
        return parts[0][1]
    outputs = {}
    for name in parts[0][1]:
        shapes = [part[name].shape[1:] for _, part in parts]
        shape = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
        array = np.full((rows, *shape), padding.get(name, 0), parts[0][1][name].dtype)
        for indices, part in parts:
            inside: tuple[Any, ...] = tuple(map(slice, part[name].shape[1:]))
            array[(indices, *inside)] = part[name]
        outputs[name] = array
    return outputs


def equal_rows(inputs: Arrays) -> np.ndarray:
    """Returns the index of the first equal row for each row, `[rows]`.

    Args:
        inputs: Arrays by name, with equal first dimensions.
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
