"""Runs independent tasks: in this process, in several processes, or elsewhere."""

import multiprocessing
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import connection
from pathlib import Path
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class TaskRunner(ABC):
    """Runs a function on tasks that do not depend on each other.

    A task may run more than once, for example after the failure of a worker. Its
    function therefore writes each file under a temporary name and renames it.
    """

    @abstractmethod
    def run(
        self,
        title: str,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        directory: Path,
    ) -> Iterator[Result]:
        """Runs a function on each task.

        Args:
            title: Name of the work, for monitoring.
            function: A function of a module, which other processes can import.
            tasks: Arguments of the function. They can be pickled.
            directory: Directory that all workers can write to, for files of the runner.

        Yields:
            The results, small and picklable, in the order of the tasks.

        Raises:
            Exception: The exception of a task.
        """


class LocalTaskRunner(TaskRunner):
    """Runs tasks on this machine.

    Args:
        processes: Number of processes. Default 1 (this process). With more, the main
            module of the program must protect its code with
            `if __name__ == "__main__"`, because new processes import it.
    """

    def __init__(self, processes: int = 1) -> None:
        self._processes = processes

    def run(
        self,
        title: str,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        directory: Path,
    ) -> Iterator[Result]:
        """Runs a function on each task; see `TaskRunner`."""
        processes = min(self._processes, len(tasks))
        if processes <= 1:
            yield from map(function, tasks)
            return
        # TensorFlow's threads do not survive a fork.
        context = multiprocessing.get_context("spawn")
        ended, end = context.Pipe(duplex=False)
        with ProcessPoolExecutor(processes, context, start_worker, (ended,)) as pool:
            futures = [pool.submit(function, task) for task in tasks]
            try:
                yield from (future.result() for future in futures)
            except BaseException:
                # Do not wait for tasks whose results nobody needs.
                end.close()
                raise


def start_worker(*ended: connection.Connection) -> None:
    """Prepares a worker process: it ends with its parent process, but not before it.

    Args:
        *ended: Pipes at whose end this process ends, too.
    """
    # The terminal sends Ctrl-C to all processes, but only the parent reports it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent
    events: list[Any] = [parent.sentinel, *ended]

    def wait() -> None:
        connection.wait(events)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
