"""Requests that come at the same time, answered together."""

import dataclasses
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

import grpc
import numpy as np

from t2t_keras.serving.errors import ServingError
from t2t_keras.serving.saved_model import Arrays

Run = Callable[[Arrays], Arrays]


@dataclasses.dataclass(frozen=True, eq=False)
class _Task:
    inputs: Arrays
    rows: int
    future: "Future[Arrays]"
    enqueued: float


@dataclasses.dataclass(frozen=True, eq=False)
class _Queue:
    run: Run
    joinable: bool
    tasks: deque[_Task]

    @property
    def rows(self) -> int:
        return sum(task.rows for task in self.tasks)


class Batcher:
    """Joins requests for the same signature and gives each its own rows back.

    A thread that is free takes what is waiting; while all are busy, batches grow.
    Names and meanings are those of TensorFlow Serving's batching parameters.

    Args:
        max_batch_size: The most rows of a batch. A request of more goes by itself.
        batch_timeout_micros: How long a thread waits for a batch to become full.
        max_enqueued_batches: How many full batches may wait, over all signatures.
        num_batch_threads: How many batches run at once.
        observe: Called with the microseconds that each request waited and the rows
            of the batch that it was in. Default nothing.
    """

    def __init__(
        self,
        max_batch_size: int = 64,
        batch_timeout_micros: int = 0,
        max_enqueued_batches: int = 100,
        num_batch_threads: int = 2,
        observe: Callable[[float, int], None] = lambda micros, rows: None,
    ) -> None:
        self._max_batch_size = max_batch_size
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
        self, key: Hashable | None, run: Run, inputs: Arrays
    ) -> "Future[Arrays]":
        """Adds a request.

        Args:
            key: Requests of one key may be joined; None for one that may not.
            run: Answers a batch; the same function for equal keys.
            inputs: Arrays; where they may be joined, of one and the same first axis.

        Returns:
            The outputs to come. If it is cancelled in time, nothing is computed.

        Raises:
            ServingError: If too much is waiting already.
        """
        rows = len(next(iter(inputs.values()))) if key is not None else 1
        task = _Task(inputs, max(rows, 1), Future(), time.monotonic())
        with self._changed:
            if self._closed:
                raise ServingError(grpc.StatusCode.UNAVAILABLE, "The server ends.")
            if self._rows and self._rows + task.rows > self._most_rows:
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
            queue.tasks.append(task)
            self._rows += task.rows
            self._changed.notify()
        # Whoever goes away does not go on taking room.
        task.future.add_done_callback(lambda _: self._forget(place, queue, task))
        return task.future

    def _forget(self, place: Hashable, queue: _Queue, task: _Task) -> None:
        if not task.future.cancelled():
            return
        with self._changed:
            if task in queue.tasks:
                queue.tasks.remove(task)
                self._rows -= task.rows
            if not queue.tasks and self._queues.get(place) is queue:
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
                run, tasks = self._take(due)
            try:
                self._answer(run, tasks)
            except Exception as error:
                for task in tasks:
                    if not task.future.done():
                        task.future.set_exception(error)

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
        return queue.tasks[0].enqueued + self._timeout

    def _seconds_until_due(self) -> float | None:
        times = [self._due_at(queue) for queue in self._queues.values()]
        return max(min(times) - time.monotonic(), 0.0) if times else None

    def _take(self, place: Hashable) -> tuple[Run, list[_Task]]:
        """Takes a batch from a queue; the lock is held."""
        queue = self._queues.pop(place)
        taken = [queue.tasks.popleft()]
        rows = taken[0].rows
        while queue.tasks and rows + queue.tasks[0].rows <= self._max_batch_size:
            taken.append(queue.tasks.popleft())
            rows += taken[-1].rows
        self._rows -= rows
        if queue.tasks:  # The others' turn comes first.
            self._queues[place] = queue
            self._changed.notify()
        return queue.run, taken

    def _answer(self, run: Run, tasks: list[_Task]) -> None:
        # Whoever has gone away meanwhile is not computed for.
        tasks = [t for t in tasks if t.future.set_running_or_notify_cancel()]
        if not tasks:
            return
        now, rows = time.monotonic(), sum(task.rows for task in tasks)
        for task in tasks:
            self._observe((now - task.enqueued) * 1e6, rows)
        if len(tasks) > 1:
            try:
                parts = _split(run(_join([t.inputs for t in tasks])), tasks)
            except Exception:
                # One of them may be wrong, or the model mixes rows: each by itself.
                parts = []
            for task, part in zip(tasks, parts, strict=False):
                task.future.set_result(part)
            if parts:
                return
        for task in tasks:
            try:
                task.future.set_result(run(task.inputs))
            except Exception as error:
                task.future.set_exception(error)


def _join(inputs: list[Arrays]) -> Arrays:
    return {name: np.concatenate([one[name] for one in inputs]) for name in inputs[0]}


def _split(outputs: Arrays, tasks: list[_Task]) -> list[Arrays]:
    """Gives each request its rows.

    Raises:
        ValueError: If the outputs do not have the rows of the inputs.
    """
    rows = [len(next(iter(task.inputs.values()))) for task in tasks]
    for name, array in outputs.items():
        if array.ndim == 0 or len(array) != sum(rows):
            raise ValueError(f"Output {name} has not the rows of the inputs.")
    ends = np.cumsum(rows)[:-1]
    parts: dict[str, Any] = {n: np.split(array, ends) for n, array in outputs.items()}
    return [{n: part[i] for n, part in parts.items()} for i in range(len(tasks))]
