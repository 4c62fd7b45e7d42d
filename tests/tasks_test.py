"""Tests of running tasks in several processes."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures.process import BrokenProcessPool

import pytest

from t2t_keras.errors import UserError
from t2t_keras.tasks import LocalTaskRunner


def square(number):
    return number * number, os.getpid()


def fail(number):
    raise UserError(f"line {number} is bad")


def kill_worker(number):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("processes", [1, 3])
def test_results_have_the_order_of_the_tasks(tmp_path, processes):
    results = [*LocalTaskRunner(processes).run("square", square, range(20), tmp_path)]
    assert [result for result, _ in results] == [i * i for i in range(20)]
    assert (os.getpid() in {process for _, process in results}) == (processes == 1)


@pytest.mark.parametrize("processes", [1, 2])
def test_errors_of_tasks_are_raised_unchanged(tmp_path, processes):
    with pytest.raises(UserError, match=r"^line 0 is bad$"):
        [*LocalTaskRunner(processes).run("fail", fail, range(3), tmp_path)]


def test_killed_worker_is_an_error(tmp_path):
    with pytest.raises(BrokenProcessPool):
        [*LocalTaskRunner(2).run("kill", kill_worker, range(3), tmp_path)]


def wait_or_fail(number):
    if number:
        threading.Event().wait()
    raise UserError("stop")


def test_error_of_a_task_does_not_wait_for_other_tasks(tmp_path):
    with pytest.raises(UserError, match="stop"):
        [*LocalTaskRunner(2).run("wait", wait_or_fail, range(2), tmp_path)]


WORK = """
import threading
def work(number):
    print("started", flush=True)
    threading.Event().wait()
if __name__ == "__main__":
    from t2t_keras.tasks import LocalTaskRunner
    list(LocalTaskRunner(2).run("work", work, [1, 2], None))
"""


@pytest.fixture
def parent(tmp_path):
    """A process with two worker processes."""
    (tmp_path / "work.py").write_text(WORK)
    with subprocess.Popen(
        [sys.executable, "work.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert [process.stdout.readline() for _ in range(2)] == [b"started\n"] * 2
        yield process


def test_workers_end_when_their_parent_is_killed(parent):
    parent.kill()
    # The pipe ends when the last process that holds it has ended.
    assert parent.stdout.read() == b""


def test_interrupt_ends_workers_at_once_and_only_the_parent_reports_it(parent):
    os.killpg(parent.pid, signal.SIGINT)
    errors = parent.communicate()[1].decode()
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert errors.count("Traceback") == 1


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
