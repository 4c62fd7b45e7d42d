"""Batching of concurrent requests."""

import dataclasses
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

import grpc
import numpy as np

from t2t_keras.server.batch_request import BatchRequest, RequestPart, Rows
from t2t_keras.server.saved_model import Arrays
from t2t_keras.server.serving_errors import ServingError

Run = Callable[[Arrays, float], Arrays]
"""Runs a batch within a number of seconds."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Queue:
    run: Run
    joinable: bool
    requests: deque[BatchRequest]

    @property
    def rows(self) -> int:
        return sum(request.left for request in self.requests)


class Batcher:
    """Joins requests for the same signature and returns each its own rows.

    An idle thread takes all waiting requests; while all threads are busy, batches grow.
    A request larger than a batch takes turns with others, as do the requests for one
    signature that run alone: however many wait for memory, others wait for one turn.
    Names and meanings of the arguments are those of TensorFlow Serving's batching
    parameters.

    Args:
        max_batch_size: Maximum number of rows of a batch. A larger request is split, or
            runs alone if it must not be split.
        batch_timeout_micros: Microseconds that a thread waits for a batch to fill up.
        max_enqueued_batches: Maximum number of full batches that wait, over all
            signatures.
        num_batch_threads: Number of batches that run concurrently.
        max_batch_length: Maximum length of a batch: its rows times its longest row.
            Default no limit.
        max_response_bytes: Maximum size of a request's outputs in bytes. Default no
            limit.
        observe: Called for each request with its waiting time in microseconds and the
            rows of its batch. Default nothing.
    """

    def __init__(
        self,
        max_batch_size: int = 64,
        batch_timeout_micros: int = 0,
        max_enqueued_batches: int = 100,
        num_batch_threads: int = 2,
        max_batch_length: int | None = None,
        max_response_bytes: int | None = None,
        observe: Callable[[float, int], None] = lambda micros, rows: None,
    ) -> None:
        self._max_batch_size = max_batch_size
        self._max_batch_length = max_batch_length
        self._max_response_bytes = max_response_bytes
        self._timeout = batch_timeout_micros / 1e6
        self._max_rows = max_enqueued_batches * max_batch_size
        self._observe = observe
        self._rows = 0
        self._closed = False
        # In the order of their turns.
        self._queues: OrderedDict[Hashable, _Queue] = OrderedDict()
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._work, name=f"batch-{number}", daemon=True)
            for number in range(num_batch_threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self,
        key: Hashable,
        run: Run,
        inputs: Arrays,
        seconds: float = math.inf,
        rows: Rows | None = None,
        joinable: bool = True,
    ) -> "Future[Arrays]":
        """Enqueues a request.

        Args:
            key: Requests with equal keys may be joined; those that must run alone take
                turns with requests of other keys.
            run: Runs a batch; the same function for equal keys.
            inputs: Arrays by name; with equal first dimensions if they may be joined.
            seconds: Timeout in seconds. Default none.
            rows: Properties of the rows of a request that may be joined. Default: it
                must not be split.
            joinable: Whether the request may be joined with others. Default True;
                otherwise it runs alone.

        Returns:
            Future outputs. If it is cancelled in time, nothing is computed.

        Raises:
            ServingError: If too many rows are waiting.
        """
        if joinable and rows is None:
            rows = Rows(np.zeros(len(next(iter(inputs.values()))), int))
        request = BatchRequest(
            inputs,
            rows if joinable else None,
            time.monotonic() + seconds,
            self._max_response_bytes,
        )
        with self._changed:
            if self._closed:
                raise ServingError(
                    grpc.StatusCode.UNAVAILABLE, "The server is shutting down."
                )
            if self._rows and self._rows + request.rows > self._max_rows:
                raise ServingError(
                    grpc.StatusCode.UNAVAILABLE,
                    "Too many requests are waiting; try again later.",
                )
            shapes = tuple(
                (name, array.shape[1:]) for name, array in sorted(inputs.items())
            )
            queue_key = (key, shapes if joinable else None)
            queue = _Queue(run, joinable, deque())
            queue = self._queues.setdefault(queue_key, queue)
            queue.requests.append(request)
            self._rows += request.rows
            self._changed.notify()
        # A cancelled request must not occupy the queue.
        request.future.add_done_callback(
            lambda _: self._forget(queue_key, queue, request)
        )
        return request.future

    def _forget(self, key: Hashable, queue: _Queue, request: BatchRequest) -> None:
        if not request.left:
            return
        with self._changed:
            if request in queue.requests:
                queue.requests.remove(request)
                self._rows -= request.left
            if not queue.requests and self._queues.get(key) is queue:
                del self._queues[key]

    def close(self) -> None:
        """Completes the waiting requests and ends the threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not (due := self._due()):
                    if self._closed:
                        return
                    self._changed.wait(self._seconds_until_due())
                run, parts = self._take(due)
            try:
                self._run_parts(run, parts)
            except Exception as error:
                for part in parts:
                    part.request.fail(error)

    def _due(self) -> Hashable | None:
        """Returns the key of the first queue whose batch is due."""
        now = time.monotonic()
        for key, queue in self._queues.items():
            if self._closed or self._due_at(queue) <= now:
                return key
        return None

    def _due_at(self, queue: _Queue) -> float:
        if not queue.joinable or queue.rows >= self._max_batch_size:
            return 0.0
        first = queue.requests[0]
        return 0.0 if first.is_started else first.enqueued + self._timeout

    def _seconds_until_due(self) -> float | None:
        times = [self._due_at(queue) for queue in self._queues.values()]
        return max(min(times) - time.monotonic(), 0.0) if times else None

    def _take(self, key: Hashable) -> tuple[Run, list[RequestPart]]:
        """Takes a batch from a queue. The caller holds the lock."""
        queue = self._queues.pop(key)
        parts: list[RequestPart] = []
        rows, longest = 0, 0
        while queue.requests:
            request = queue.requests[0]
            longest = max(longest, request.length)
            capacity = self._max_batch_size - rows
            if self._max_batch_length is not None and longest:
                capacity = min(capacity, self._max_batch_length // longest - rows)
            part = request.take(max(capacity, 0 if parts else 1), is_first=not parts)
            if not part:
                break
            parts.append(part)
            rows += len(part.rows)
            queue.requests.popleft()
            if request.left:  # Takes turns with the others.
                queue.requests.append(request)
            if request.left or not queue.joinable:
                break
        self._rows -= rows
        if queue.requests:
            self._queues[key] = queue
            self._changed.notify()
        return queue.run, parts

    def _run_parts(self, run: Run, parts: list[RequestPart]) -> None:
        # Skips requests that were cancelled meanwhile.
        parts = [part for part in parts if not part.request.future.done()]
        now, rows = time.monotonic(), sum(len(part.rows) for part in parts)
        for part in parts:
            self._observe((now - part.request.enqueued) * 1e6, rows)
        if len(parts) > 1:
            deadline = max(part.request.deadline for part in parts)
            try:
                outputs = run(_join([part.inputs for part in parts]), deadline - now)
                split_outputs = _split(outputs, parts)
            except Exception:
                # A request may be invalid or the model mixes rows: run each alone.
                split_outputs = []
            for part, part_outputs in zip(parts, split_outputs, strict=False):
                part.request.add(part, part_outputs)
            if split_outputs:
                return
        for part in parts:
            try:
                remaining = part.request.deadline - time.monotonic()
                if remaining <= 0:
                    raise TimeoutError
                part.request.add(part, run(part.inputs, remaining))
            except Exception as error:
                part.request.fail(error)


def _join(inputs: list[Arrays]) -> Arrays:
    return {
        name: np.concatenate([arrays[name] for arrays in inputs]) for name in inputs[0]
    }


def _split(outputs: Arrays, parts: list[RequestPart]) -> list[Arrays]:
    """Splits the outputs of a batch into those of its parts.

    Raises:
        ValueError: If the outputs do not have as many rows as the inputs.
    """
    rows = [len(next(iter(part.inputs.values()))) for part in parts]
    for name, array in outputs.items():
        if array.ndim == 0 or len(array) != sum(rows):
            raise ValueError(f"Output {name} does not have as many rows as the inputs.")
    ends = np.cumsum(rows)[:-1]
    pieces: dict[str, Any] = {n: np.split(array, ends) for n, array in outputs.items()}
    return [{n: array[i] for n, array in pieces.items()} for i in range(len(parts))]
