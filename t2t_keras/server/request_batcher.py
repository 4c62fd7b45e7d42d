"""Requests that come at the same time, answered together."""

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
"""Answers a batch within so many seconds."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Queue:
    run: Run
    joinable: bool
    requests: deque[BatchRequest]

    @property
    def rows(self) -> int:
        return sum(request.left for request in self.requests)


class Batcher:
    """Joins requests for the same signature and gives each its own rows back.

    A thread that is free takes what is waiting; while all are busy, batches grow. A
    request that is larger than a batch takes turns with others. Names and meanings are
    those of TensorFlow Serving's batching parameters.

    Args:
        max_batch_size: Maximum number of rows of a batch. A request of more is divided,
            or, where that may not be, computed by itself.
        batch_timeout_micros: How long a thread waits for a batch to become full.
        max_enqueued_batches: How many full batches may wait, over all signatures.
        num_batch_threads: How many batches run at once.
        max_batch_length: Maximum length of a batch: its rows times its longest row.
            Default no limit.
        max_answer_bytes: Maximum number of bytes of a request's outputs. Default no
            limit.
        observe: Called with the microseconds that each request waited and the rows
            of the batch that it was in. Default nothing.
    """

    def __init__(
        self,
        max_batch_size: int = 64,
        batch_timeout_micros: int = 0,
        max_enqueued_batches: int = 100,
        num_batch_threads: int = 2,
        max_batch_length: int | None = None,
        max_answer_bytes: int | None = None,
        observe: Callable[[float, int], None] = lambda micros, rows: None,
    ) -> None:
        self._max_batch_size = max_batch_size
        self._max_batch_length = max_batch_length
        self._max_answer_bytes = max_answer_bytes
        self._timeout = batch_timeout_micros / 1e6
        self._most_rows = max_enqueued_batches * max_batch_size
        self._observe = observe
        self._rows = 0
        self._closed = False
        # The queue whose first request has waited longest comes first.
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
        key: Hashable | None,
        run: Run,
        inputs: Arrays,
        seconds: float = math.inf,
        rows: Rows | None = None,
    ) -> "Future[Arrays]":
        """Adds a request.

        Args:
            key: Requests of one key may be joined; None for one that may not.
            run: Answers a batch; the same function for equal keys.
            inputs: Arrays; where they may be joined, of one and the same first axis.
            seconds: How long the answer is wanted. Default for ever.
            rows: What is known of the rows of a request that may be joined. Default: it
                may not be divided.

        Returns:
            The outputs to come. If it is cancelled in time, nothing is computed.

        Raises:
            ServingError: If too much is waiting already.
        """
        if key is not None and rows is None:
            rows = Rows(np.zeros(len(next(iter(inputs.values()))), int))
        request = BatchRequest(
            inputs,
            None if key is None else rows,
            time.monotonic() + seconds,
            self._max_answer_bytes,
        )
        with self._changed:
            if self._closed:
                raise ServingError(grpc.StatusCode.UNAVAILABLE, "The server ends.")
            if self._rows and self._rows + request.rows > self._most_rows:
                raise ServingError(
                    grpc.StatusCode.UNAVAILABLE,
                    "Too many requests are waiting; try again later.",
                )
            shapes = tuple(
                (name, array.shape[1:]) for name, array in sorted(inputs.items())
            )
            place = object() if key is None else (key, shapes)
            queue = _Queue(run, key is not None, deque())
            queue = self._queues.setdefault(place, queue)
            queue.requests.append(request)
            self._rows += request.rows
            self._changed.notify()
        # Whoever goes away does not go on taking room.
        request.future.add_done_callback(lambda _: self._forget(place, queue, request))
        return request.future

    def _forget(self, place: Hashable, queue: _Queue, request: BatchRequest) -> None:
        if not request.left:
            return
        with self._changed:
            if request in queue.requests:
                queue.requests.remove(request)
                self._rows -= request.left
            if not queue.requests and self._queues.get(place) is queue:
                del self._queues[place]

    def close(self) -> None:
        """Answers what is waiting and ends."""
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
                self._answer(run, parts)
            except Exception as error:
                for part in parts:
                    part.request.fail(error)

    def _due(self) -> Hashable | None:
        """Finds the first queue that need not wait any longer."""
        now = time.monotonic()
        for place, queue in self._queues.items():
            if self._closed or self._due_at(queue) <= now:
                return place
        return None

    def _due_at(self, queue: _Queue) -> float:
        if not queue.joinable or queue.rows >= self._max_batch_size:
            return 0.0
        first = queue.requests[0]
        return 0.0 if first.is_begun else first.enqueued + self._timeout

    def _seconds_until_due(self) -> float | None:
        times = [self._due_at(queue) for queue in self._queues.values()]
        return max(min(times) - time.monotonic(), 0.0) if times else None

    def _take(self, place: Hashable) -> tuple[Run, list[RequestPart]]:
        """Takes a batch from a queue; the lock is held."""
        queue = self._queues.pop(place)
        parts: list[RequestPart] = []
        rows, longest = 0, 0
        while queue.requests:
            request = queue.requests[0]
            longest = max(longest, request.length)
            room = self._max_batch_size - rows
            if self._max_batch_length is not None and longest:
                room = min(room, self._max_batch_length // longest - rows)
            part = request.take(max(room, 0 if parts else 1), is_first=not parts)
            if not part:
                break
            parts.append(part)
            rows += len(part.rows)
            queue.requests.popleft()
            if request.left:  # The others' turn comes first.
                queue.requests.append(request)
                break
        self._rows -= rows
        if queue.requests:
            self._queues[place] = queue
            self._changed.notify()
        return queue.run, parts

    def _answer(self, run: Run, parts: list[RequestPart]) -> None:
        # Whoever has gone away meanwhile is not computed for.
        parts = [part for part in parts if not part.request.future.done()]
        now, rows = time.monotonic(), sum(len(part.rows) for part in parts)
        for part in parts:
            self._observe((now - part.request.enqueued) * 1e6, rows)
        if len(parts) > 1:
            until = max(part.request.deadline for part in parts)
            try:
                outputs = run(_join([part.inputs for part in parts]), until - now)
                found = _split(outputs, parts)
            except Exception:
                # One of them may be wrong, or the model mixes rows: each by itself.
                found = []
            for part, own in zip(parts, found, strict=False):
                part.request.add(part, own)
            if found:
                return
        for part in parts:
            try:
                left = part.request.deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                part.request.add(part, run(part.inputs, left))
            except Exception as error:
                part.request.fail(error)


def _join(inputs: list[Arrays]) -> Arrays:
    return {name: np.concatenate([one[name] for one in inputs]) for name in inputs[0]}


def _split(outputs: Arrays, parts: list[RequestPart]) -> list[Arrays]:
    """Gives each part its rows.

    Raises:
        ValueError: If the outputs do not have the rows of the inputs.
    """
    rows = [len(next(iter(part.inputs.values()))) for part in parts]
    for name, array in outputs.items():
        if array.ndim == 0 or len(array) != sum(rows):
            raise ValueError(f"Output {name} has not the rows of the inputs.")
    ends = np.cumsum(rows)[:-1]
    found: dict[str, Any] = {n: np.split(array, ends) for n, array in outputs.items()}
    return [{n: array[i] for n, array in found.items()} for i in range(len(parts))]
