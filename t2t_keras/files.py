"""Files that appear whole or not at all."""

import contextlib
import errno
import fcntl
import io
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from t2t_keras.errors import UserError

_LOCK_ATTEMPTS = 10

_OF_THE_PATH = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP),
    *(errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENXIO),
}
"""What is wrong with a path, rather than with the disk or the network behind it."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def user_path(path: str | Path, action: str) -> Iterator[None]:
    """Reports a path that a user named and that cannot be used as their mistake.

    A disk that is full or fails is none, and its `OSError` passes through.

    Args:
        path: The path, for the message.
        action: What the block does with it: "read" or "written to".

    Raises:
        UserError: If the block fails because of the path: there is no such file, it is
            a directory, it may not be read, its name is too long.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_PATH:
            raise
        raise UserError(f"{path} cannot be {action}: {error.strerror}.") from error


def make_directory(path: str | Path) -> Path:
    """Makes a directory, and its parents if need be, unless it is there.

    Raises:
        UserError: If it cannot be made there.
    """
    path = directory_at(path)
    with user_path(path, "written to"):
        path.mkdir(parents=True, exist_ok=True)
    return path


class WriteError(OSError):
    """A file or a stream that cannot be written to; the message names it."""

    def __str__(self) -> str:
        return f"{self.filename} cannot be written to: {self.strerror}."


class NamedOutput(io.FileIO):
    """A stream to write, whose errors name it, whoever writes and whenever.

    Those of the operating system name a file only if it cannot be opened.

    Args:
        descriptor: Its file descriptor, open for writing.
        title: How messages call it.
        closefd: Whether closing this object closes the descriptor. Default True.
    """

    def __init__(self, descriptor: int, title: str, closefd: bool = True) -> None:
        super().__init__(descriptor, "wb", closefd)
        self._title = title

    def write(self, content: Any) -> Any:
        """Writes bytes.

        Raises:
            BrokenPipeError: If nobody reads them any more.
            WriteError: If they cannot be written.
        """
        try:
            return super().write(content)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise WriteError(error.errno, error.strerror, self._title) from error


@contextmanager
def atomic_writer(path: str | Path) -> Iterator[BinaryIO]:
    """Opens a file that takes its name only when all of it is on disk.

    Args:
        path: The final name; a file that is there already is replaced, and its
            permissions are kept. What is no ordinary file, such as a pipe or
            `/dev/null`, is written to directly.

    Yields:
        A binary file to write. If the block raises, nothing is left behind.

    Raises:
        UserError: If no file can have that name, or may not be written there.
        WriteError: If what is written cannot be stored.
    """
    path = writable_file(path)
    if path.exists() and not path.is_file():
        with user_path(path, "written to"):
            file = path.open("wb")
        with _naming(path), file:
            yield file
        return
    with user_path(path, "written to"), _naming(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with _naming(path), os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp hides its files from other users; these are as public as others.
        os.chmod(temporary, _permissions(path))
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Names the file in the error of a full disk, which names none."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        raise WriteError(error.errno, error.strerror, str(path)) from error


def writable_file(path: str | Path) -> Path:
    """Finds the file that writing to a path makes or replaces.

    Args:
        path: A file, which need not be there, or a link to one.

    Returns:
        The file itself: what a link points to is replaced, and not the link.

    Raises:
        UserError: If no file can have that name, or it is read-only, or its directory
            is.
    """
    with user_path(path, "written to"):
        return _file_to_write(Path(path))


def _file_to_write(path: Path) -> Path:
    if path.is_dir():
        raise UserError(f"{path} is a directory; a file was to be written there.")
    if path.exists() and not path.is_file():
        return path
    try:
        path = path.resolve()
    except RuntimeError as error:  # Of Python up to 3.12, for links that form a circle.
        raise UserError(f"{path} is a link to itself.") from error
    if not path.parent.is_dir():
        raise UserError(f"There is no directory {path.parent} to write {path.name} to.")
    if path.exists() and _is_read_only(path):
        raise UserError(
            f"{path} is read-only and is not replaced. Make it writable, or choose "
            "another name."
        )
    if _is_read_only(path.parent):
        raise UserError(
            f"The directory {path.parent} is read-only: {path.name} cannot be written "
            "there."
        )
    return path


def _is_read_only(path: Path) -> bool:
    # The superuser may write everything; what is write-protected for everybody is
    # meant to stay as it is all the same.
    is_protected = not path.stat().st_mode & 0o222
    return is_protected or not os.access(path, os.W_OK)


def _permissions(path: Path) -> int:
    """Returns the permission bits of a file, or those that a new one would have."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def write_atomically(path: str | Path, content: bytes) -> None:
    """Writes a whole file at once; see `atomic_writer`."""
    with atomic_writer(path) as file:
        file.write(content)


@contextmanager
def locked(path: str | Path, taken: str, is_removed: bool = False) -> Iterator[None]:
    """Makes sure that only one process is in a block at a time.

    Args:
        path: A file for the lock, made if it is not there. The system lets go of the
            lock when the process ends, however it ends.
        taken: What to say if another process has it.
        is_removed: Whether the file is removed after the block. Default False.

    Raises:
        UserError: If another one has it, or the file cannot be made.
        FileNotFoundError: If there is no directory for the file.
    """
    path = Path(path)
    with _lock(path, taken):
        try:
            yield
        finally:
            if is_removed:
                path.unlink(missing_ok=True)


def _lock(path: Path, taken: str) -> BinaryIO:
    for attempt in range(_LOCK_ATTEMPTS):
        if attempt:
            time.sleep(0.1)  # It may be `is_locked` that looks.
        try:
            file = path.open("ab")
        except FileNotFoundError:
            raise
        except OSError:
            with user_path(path, "written to"):
                raise
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held the lock of a file that is removed may have removed it.
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()
    raise UserError(taken)


def is_locked(path: str | Path) -> bool:
    """Tells whether a process is in a block of `locked`."""
    path = Path(path)
    if not path.is_file():
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def directory_at(path: str | Path) -> Path:
    """Returns a path that is a directory, or may become one.

    Raises:
        UserError: If there is a file in its place, or in that of a parent.
    """
    path = Path(path)
    whole = path.absolute()
    with user_path(path, "written to"):
        there = next(place for place in (whole, *whole.parents) if place.exists())
    if not there.is_dir():
        raise UserError(f"{path} cannot be a directory: {there} is a file.")
    return path
