"""Runs tasks as Apache Beam pipelines, on one machine or on a cluster.

Each call of `BeamTaskRunner.run` is a pipeline of its own: the tasks are the elements
of a collection, which the runner distributes. Results return through files, which works
with every runner.
"""

import contextlib
import io
import itertools
import logging
import multiprocessing
import os
import pickle
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.files import write_atomically
from t2t_keras.optional_packages import require_extra
from t2t_keras.tasks import Result, Task, TaskRunner, start_worker

require_extra("beam", "Running tasks on Apache Beam")

import apache_beam as beam  # noqa: E402
from apache_beam.options.pipeline_options import (  # noqa: E402
    PipelineOptions,
    SetupOptions,
    WorkerOptions,
)

DEFAULT_RUNNER = "FnApiRunner"
"""Runs a pipeline in one process. Beam's own default downloads a program."""

_ATTEMPTS = 3


class BeamTaskRunner(TaskRunner):
    """Runs tasks on an Apache Beam runner.

    Args:
        runner: Name of a Beam runner. Default "FnApiRunner", on this machine.
        arguments: Further command-line arguments of Beam, such as
            `--flink_master=host:8081`. Default none.

    Raises:
        UserError: If there is no such runner or the arguments are invalid.
    """

    def __init__(
        self, runner: str = DEFAULT_RUNNER, arguments: Sequence[str] = ()
    ) -> None:
        self._runner = runner
        self._arguments = arguments
        _options(runner, arguments)

    def run(
        self,
        title: str,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        directory: Path,
    ) -> Iterator[Result]:
        """Runs a function on each task; see `TaskRunner`."""
        directory /= f"results-{uuid.uuid4().hex}"
        directory.mkdir()
        for attempt in itertools.count(1):
            # After a lost worker, only the missing results are computed.
            left = [
                (number, task)
                for number, task in enumerate(tasks)
                if not (directory / _result_name(number)).exists()
            ]
            job = _Job(title, function, left, directory, self._runner, self._arguments)
            try:
                _run_in_process_group(job)
                break
            except BrokenProcessPool as error:
                if attempt == _ATTEMPTS:
                    raise RuntimeError(
                        f"{title}: worker processes of Beam were lost {attempt} times. "
                        "Perhaps they needed more memory than there is."
                    ) from error
        for number in range(len(tasks)):
            path = directory / _result_name(number)
            is_error, result = pickle.loads(path.read_bytes())
            path.unlink()
            if is_error:
                raise UserError(result)
            yield result
        directory.rmdir()


class _Job(NamedTuple):
    title: str
    function: Callable[[Any], Any]
    tasks: Sequence[tuple[int, Any]]
    directory: Path
    runner: str
    arguments: Sequence[str]


def _run_in_process_group(job: _Job) -> None:
    """Runs a pipeline in a new process group.

    Beam's local runner waits for ever when one of its worker processes dies. A group
    can be ended as a whole.

    Raises:
        BrokenProcessPool: If a worker process of the local runner died.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, _start_process_group) as pool:
        group = pool.submit(os.getpid).result()
        try:
            pool.submit(_run_pipeline, job).result()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
            raise


def _start_process_group() -> None:
    os.setpgrp()
    start_worker()
    logging.getLogger("apache_beam").setLevel(logging.WARNING)

    def end_group(failure: threading.ExceptHookArgs) -> None:
        # Beam's thread that watches a worker process raises an error when it dies.
        os.killpg(0, signal.SIGKILL)

    threading.excepthook = end_group


def _run_pipeline(job: _Job) -> None:
    pipeline = beam.Pipeline(
        runner=job.runner, options=_options(job.runner, job.arguments)
    )
    (
        pipeline
        | f"Tasks: {job.title}" >> beam.Create(list(job.tasks))
        # Without it, a runner may keep all tasks on the worker that creates them.
        | beam.Reshuffle()
        | job.title >> beam.ParDo(RunTask(job.title, job.function, str(job.directory)))
    )
    pipeline.run().wait_until_finish()


class RunTask(beam.DoFn):
    """Runs a function on a task and writes its result to a file.

    It can process an element several times: the file is replaced by an equal one.

    Args:
        title: Name of the work: the namespace of its counters.
        function: The function.
        directory: Directory of the results.
    """

    def __init__(
        self, title: str, function: Callable[[Any], Any], directory: str
    ) -> None:
        self._title = title
        self._function = function
        self._directory = directory

    def process(self, element: tuple[int, Any]) -> None:
        """Runs the function on a numbered task."""
        number, task = element
        try:
            outcome = False, self._function(task)
        except UserError as error:
            # Beam would repeat the task and report an error of its own.
            outcome = True, str(error)
        path = Path(self._directory) / _result_name(number)
        write_atomically(path, pickle.dumps(outcome))
        counts = getattr(outcome[1], "removed", {})
        for name, count in {"tasks": 1, **counts}.items():
            beam.metrics.Metrics.counter(self._title, name).inc(count)


def _result_name(number: int) -> str:
    return f"{number:06d}.pickle"


def _options(runner: str, arguments: Sequence[str]) -> PipelineOptions:
    """Returns Beam's options, checked before any work."""
    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message):
            options = PipelineOptions(list(arguments))
            known = options.get_all_options(retain_unknown_options=True)
        beam.runners.create_runner(runner)
    except (ValueError, ImportError, SystemExit) as error:
        # The argument parser prints the error on the last line, and exits.
        reason = (message.getvalue() or str(error)).splitlines()[-1]
        raise UserError(f"Beam rejects its options: {reason}") from error
    unknown = known.keys() - options.get_all_options().keys()
    if unknown:
        raise UserError(f"Beam has no options {', '.join(sorted(unknown))}.")
    # Functions are imported by name, so the main module need not be copied.
    options.view_as(SetupOptions).save_main_session = False
    workers = options.view_as(WorkerOptions)
    workers.default_sdk_harness_log_level = (
        workers.default_sdk_harness_log_level or "WARNING"
    )
    return options
