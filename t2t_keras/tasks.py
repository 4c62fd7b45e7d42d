"""Runs independent tasks: in this process, in several processes, or elsewhere."""

import contextlib
import multiprocessing
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import connection
from pathlib import Path
from typing import TypeVar

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
        with contextlib.ExitStack() as stack:
            pool = ProcessPoolExecutor(processes, context, exit_with_parent)
            # After an error, do not start the remaining tasks.
            stack.callback(pool.shutdown, cancel_futures=True)
            yield from pool.map(function, tasks)


def exit_with_parent() -> None:
    """Ends this process when its parent process ends, even if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent

    def wait() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
