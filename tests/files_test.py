"""Tests of atomic writing and of errors about paths."""

import errno
import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from t2t_keras.errors import UserError
from t2t_keras.files import atomic_writer, directory_at, user_path, write_atomically


def test_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    with pytest.raises(RuntimeError), atomic_writer(path) as file:  # noqa: PT012
        file.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_full_disk_raises_an_os_error_with_the_file_name(tmp_path):
    path = tmp_path / "file"
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match=f"{path} cannot be written to: No space left"):  # noqa: SIM117
        with atomic_writer(path):
            raise full
    with pytest.raises(OSError, match="No space"), user_path(path, "written to"):
        raise full


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENAMETOOLONG, errno.ENOTDIR])
def test_unusable_path_raises_a_user_error(number):
    message = f"x cannot be read: {os.strerror(number)}."
    with pytest.raises(UserError, match=message), user_path("x", "read"):
        raise OSError(number, os.strerror(number))


def test_devices_and_pipes_are_written_directly(tmp_path):
    write_atomically("/dev/null", b"gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, b"through")
    reader.join()
    assert received == [b"through"]


def test_writing_to_a_link_replaces_its_target(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    write_atomically(tmp_path / "link", b"content")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "file").read_bytes() == b"content"


def test_invalid_file_names_are_rejected(tmp_path):
    with pytest.raises(ValueError, match="is a directory"):
        write_atomically(tmp_path, b"")
    with pytest.raises(ValueError, match=f"no directory {tmp_path}/no to write x to"):
        write_atomically(tmp_path / "no" / "x", b"")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(ValueError, match="circle is a link to itself"):
        write_atomically(tmp_path / "circle", b"")


def test_read_only_files_are_not_replaced(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("kept")
    path.chmod(0o444)
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(ValueError, match=f"{path} is read-only and is not replace"):
            write_atomically(name, b"lost")
    path.chmod(0o640)
    tmp_path.chmod(0o555)
    try:
        for name in ("file", "new"):
            with pytest.raises(ValueError, match=f"{tmp_path} is read-only: {name}"):
                write_atomically(tmp_path / name, b"lost")
        assert path.read_text() == "kept"
        assert {each.name for each in tmp_path.iterdir()} == {"file", "link"}
    finally:
        tmp_path.chmod(0o755)
    # The permissions are kept.
    write_atomically(link, b"replaced")
    assert path.read_bytes() == b"replaced"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_directory_at_rejects_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for there in (tmp_path, tmp_path / "no" / "such", Path("new")):
        assert directory_at(there) == there
    for taken in ("file", "file/below/it"):
        with pytest.raises(ValueError, match=f"{taken} cannot be.*{tmp_path}/file is"):
            directory_at(taken)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
