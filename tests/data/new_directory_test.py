"""A directory is filled whole or not at all, whoever is killed or comes meanwhile."""

import os
import signal
import sys

import pytest

from t2t_keras.data.new_directory import is_being_filled, new_directory

FILE_SYSTEM = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "open"}


def fill(path, who):
    """Writes files and a folder that all say who wrote them."""
    with new_directory(path, "manifest", f"{path} is taken") as work:
        (work / "folder").mkdir()
        for name in ("folder/a", "b", "manifest"):
            (work / name).write_text(who)


def fail(path):
    with new_directory(path, "manifest", "") as work:
        (work / "b").write_text("half")
        raise KeyError("disk")


def content(path):
    return {
        str(p.relative_to(path)): p.read_text() for p in path.rglob("*") if p.is_file()
    }


def whole(who):
    return dict.fromkeys(["folder/a", "b", "manifest"], who)


def fork(function):
    """Runs a function in a process of its own.

    Returns:
        A function that waits for it: 0, 2 after a ValueError, or minus a signal.
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
    """Runs a function in a process that dies before its n-th use of the file system."""

    def run():
        left = number

        def count(event, arguments):
            nonlocal left
            if event in FILE_SYSTEM:
                left -= 1
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        function()

    status = fork(run)()
    assert status in (0, -signal.SIGKILL)
    return status


@pytest.mark.parametrize("existing", [True, False])
def test_a_process_killed_at_any_point_leaves_all_or_what_the_next_one_replaces(
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
            assert content(path).items() >= whole("killed").items()
            with pytest.raises(ValueError, match="is not an empty directory"):
                fill(path, "next")
            assert content(path) == whole("killed")
        else:
            replaced += 1
            fill(path, "next")
            assert content(path) == whole("next")
        assert {p.name for p in path.iterdir()} == {"folder", "b", "manifest"}
    # Before the last entry was moved, and after it.
    assert replaced > 10
    assert kept > 3


def test_a_process_killed_while_it_removes_remains_is_no_obstacle(tmp_path):
    # A number at which some entries have been moved, and not the last.
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
        assert content(path) == whole("third")


def test_one_of_many_at_once_wins_whole(tmp_path):
    for existing in (True, False):
        path = tmp_path / str(existing) / "new"
        if existing:
            path.mkdir(parents=True)
        children = [
            fork(lambda who=who, path=path: fill(path, who)) for who in "abcdef"
        ]
        assert sorted(wait() for wait in children) == [0, *[2] * 5]
        found = content(path)
        assert found == whole(found["manifest"])


def test_another_process_is_refused_until_the_first_has_ended(tmp_path):
    path = tmp_path / "new"
    (begun, say_begun), (go_on, say_go_on) = os.pipe(), os.pipe()

    def hold():
        with new_directory(path, "manifest", "is taken") as work:
            (work / "manifest").write_text("held")
            os.write(say_begun, b".")
            os.read(go_on, 1)

    wait = fork(hold)
    os.read(begun, 1)
    assert is_being_filled(path)
    with pytest.raises(ValueError, match="is taken"):
        fill(path, "other")
    os.write(say_go_on, b".")
    assert wait() == 0
    assert not is_being_filled(path)
    assert content(path) == {"manifest": "held"}


def test_a_failure_leaves_nothing_and_what_a_user_has_there_is_kept(tmp_path):
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
