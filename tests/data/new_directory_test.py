"""Tests that a directory is created atomically, despite kills and concurrency."""

import errno
import os
import resource
import signal
import sys

import pytest

from t2t_keras.data.new_directory import is_being_filled, new_directory
from t2t_keras.files import WriteError

FILE_SYSTEM_EVENTS = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "open"}


def fill(path, who):
    """Writes files, each with the name of the writer as content."""
    with new_directory(path, "manifest", f"{path} is taken") as work:
        (work / "folder").mkdir()
        for name in ("folder/a", "b", "manifest"):
            (work / name).write_text(who)


def fail(path):
    with new_directory(path, "manifest", "") as work:
        (work / "b").write_text("half")
        raise KeyError("disk")


def fill_beyond_the_limit(path):
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    with new_directory(path, "manifest", "") as work:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        (work / "b").write_text("x" * 5000)


def test_full_disk_is_an_error_that_names_the_directory(tmp_path):
    path = tmp_path / "new"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(WriteError) as full:
            fill_beyond_the_limit(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (full.value.errno, full.value.filename) == (errno.EFBIG, str(path))
    assert not path.exists()


def content(path):
    return {
        str(p.relative_to(path)): p.read_text() for p in path.rglob("*") if p.is_file()
    }


def complete(who):
    return dict.fromkeys(["folder/a", "b", "manifest"], who)


def in_child_process(function):
    """Runs a function in a child process.

    Returns:
        A function that waits for the process and returns its status: 0, 2 after a
        ValueError, or the negative signal number.
    """
    pid = os.fork()
    if not pid:
        status = 1
        try:
            function()
            status = 0
        except ValueError:
            status = 2
        finally:
            os._exit(status)
    return lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_at(number, function):
    """Runs a function in a process that is killed at its n-th file system event."""

    def run():
        left = number

        def count(event, arguments):
            nonlocal left
            if event in FILE_SYSTEM_EVENTS:
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        function()

    status = in_child_process(run)()
    assert status in (0, -signal.SIGKILL)
    return status


@pytest.mark.parametrize("existing", [True, False])
def test_kill_at_any_point_leaves_a_complete_or_replaceable_directory(
    tmp_path, existing
):
    number, ended = 0, False
    kept = replaced = 0
    while not ended:
        number += 1
        path = tmp_path / str(number) / "new"
        if existing:
            path.mkdir(parents=True)
        ended = killed_at(number, lambda path=path: fill(path, "killed")) == 0
        assert not is_being_filled(path)
        if (path / "manifest").exists():
            kept += 1
            assert content(path).items() >= complete("killed").items()
            with pytest.raises(ValueError, match="is not an empty directory"):
                fill(path, "next")
            assert content(path) == complete("killed")
        else:
            replaced += 1
            fill(path, "next")
            assert content(path) == complete("next")
        assert {p.name for p in path.iterdir()} == {"folder", "b", "manifest"}
    # Some kills hit before the last entry was moved, some after it.
    assert replaced > 10
    assert kept > 3


def test_kill_during_cleanup_does_not_block_the_next_process(tmp_path):
    # Find an event at which some entries have been moved, but not the last one.
    for number in range(1, 100):
        path = tmp_path / f"first{number}"
        killed_at(number, lambda path=path: fill(path, "first"))
        if (path / "b").exists():
            break
    assert not (path / "folder").exists()
    for second in range(4, 16):
        path = tmp_path / f"second{second}"
        killed_at(number, lambda path=path: fill(path, "first"))
        killed_at(second, lambda path=path: fill(path, "second"))
        fill(path, "third")
        assert content(path) == complete("third")


def test_one_of_several_concurrent_processes_fills_the_directory(tmp_path):
    for existing in (True, False):
        path = tmp_path / str(existing) / "new"
        if existing:
            path.mkdir(parents=True)
        children = [
            in_child_process(lambda who=who, path=path: fill(path, who))
            for who in "abcdef"
        ]
        assert sorted(wait() for wait in children) == [0, *[2] * 5]
        found = content(path)
        assert found == complete(found["manifest"])


def test_second_process_is_rejected_until_the_first_ends(tmp_path):
    path = tmp_path / "new"
    (started, send_started), (resume, send_resume) = os.pipe(), os.pipe()

    def hold():
        with new_directory(path, "manifest", "is taken") as work:
            (work / "manifest").write_text("held")
            os.write(send_started, b".")
            os.read(resume, 1)

    wait = in_child_process(hold)
    os.read(started, 1)
    assert is_being_filled(path)
    with pytest.raises(ValueError, match="is taken"):
        fill(path, "other")
    os.write(send_resume, b".")
    assert wait() == 0
    assert not is_being_filled(path)
    assert content(path) == {"manifest": "held"}


def test_failure_leaves_nothing_and_keeps_existing_files(tmp_path):
    for path in (tmp_path / "a" / "new", tmp_path / "there"):
        with pytest.raises(KeyError, match="disk"):
            fail(path)
        assert not path.exists()
        path.mkdir()
    (path / "mine").write_text("keep")
    with pytest.raises(ValueError, match=f"{path} is not an empty directory"):
        fill(path, "other")
    assert content(path) == {"mine": "keep"}
    with pytest.raises(ValueError, match="mine is not a directory"):
        fill(path / "mine", "other")
    with pytest.raises(ValueError, match="/proc/new cannot be written to"):
        fill("/proc/new", "other")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
