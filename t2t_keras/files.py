"""Atomic writing of files, locks, and errors about paths."""

import contextlib
import errno
import fcntl
import hashlib
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

_PATH_ERRORS = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP),
    *(errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENXIO),
}
"""Errors of a path itself, rather than of the disk or the network."""
_DISK_FULL_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def user_path(path: str | Path, action: str) -> Iterator[None]:
    """Turns errors about a path given by the user into a `UserError`.

    Other errors, such as a full or failing disk, pass through as `OSError`.

    Args:
        path: The path, for the message.
        action: What the block does with the path, "read" or "written to", for the
            message.

    Raises:
        UserError: If the block fails because of the path: the file does not exist, is a
            directory or is not readable, or its name is too long.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _PATH_ERRORS:
            raise
        raise UserError(f"{path} cannot be {action}: {error.strerror}.") from error


def make_directory(path: str | Path) -> Path:
    """Creates a directory and its parents if they do not exist.

    Raises:
        UserError: If the directory cannot be created.
    """
    path = directory_at(path)
    with user_path(path, "written to"):
        path.mkdir(parents=True, exist_ok=True)
    return path


class WriteError(OSError):
    """Writing to a file or stream failed. The message names the file or stream."""

    def __str__(self) -> str:
        return f"{self.filename} cannot be written to: {self.strerror}."


class NamedOutput(io.FileIO):
    """An output stream whose write errors name it.

    The operating system names a file only if it cannot be opened, not if writing to it
    fails.

    Args:
        descriptor: File descriptor, open for writing.
        title: Name of the stream in messages.
        closefd: Whether closing this object closes the descriptor. Default True.
    """

    def __init__(self, descriptor: int, title: str, closefd: bool = True) -> None:
        super().__init__(descriptor, "wb", closefd)
        self._title = title

    def write(self, content: Any) -> Any:
        """Writes bytes.

        Raises:
            BrokenPipeError: If the reader has closed the pipe.
            WriteError: If the bytes cannot be written.
        """
        try:
            return super().write(content)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise WriteError(error.errno, error.strerror, self._title) from error


@contextmanager
def atomic_writer(path: str | Path) -> Iterator[BinaryIO]:
    """Opens a file for writing that replaces `path` only when it is complete on disk.

    Args:
        path: The final name. An existing file is replaced, and its permissions are
            kept. A path that is not a regular file, such as a pipe or `/dev/null`, is
            written to directly.

    Yields:
        A binary file to write. If the block raises, nothing is left behind.

    Raises:
        UserError: If the path is not a valid file name or is not writable.
        WriteError: If writing fails, for example because the disk is full.
    """
    path = writable_file(path)
    if path.exists() and not path.is_file():
        with user_path(path, "written to"):
            file = path.open("wb")
        with name_in_error(path), file:
            yield file
        return
    with user_path(path, "written to"), name_in_error(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with name_in_error(path), os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp creates files that only their owner can read.
        os.chmod(temporary, _permissions(path))
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def name_in_error(path: Path) -> Iterator[None]:
    """Adds a file name to the error of a full disk that has none.

    Args:
        path: The file, or the directory whose files the block writes.

    Raises:
        WriteError: If the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_FULL_ERRORS or error.filename is not None:
            raise
        raise WriteError(error.errno, error.strerror, str(path)) from error


def writable_file(path: str | Path) -> Path:
    """Returns the file that writing to a path creates or replaces.

    Args:
        path: A file, which may not exist yet, or a link to one.

    Returns:
        The path with links resolved, so that the target of a link is replaced, not the
        link.

    Raises:
        UserError: If the path is not a valid file name, or the file or its directory is
            read-only.
    """
    with user_path(path, "written to"):
        return _file_to_write(Path(path))


def _file_to_write(path: Path) -> Path:
    if path.is_dir():
        raise UserError(f"{path} is a directory. Give the name of a file.")
    if path.exists() and not path.is_file():
        return path
    try:
        path = path.resolve()
    except RuntimeError as error:  # Python up to 3.12 raises it for circular links.
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
    # The superuser may write to every file. Respect write protection nevertheless.
    is_protected = not path.stat().st_mode & 0o222
    return is_protected or not os.access(path, os.W_OK)


def _permissions(path: Path) -> int:
    """Returns the permission bits of a file, or the default ones of a new file."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def file_digest(path: str | Path) -> str:
    """Returns the SHA-256 of a file, in hex digits."""
    with user_path(path, "read"), Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: str | Path, content: bytes) -> None:
    """Writes a whole file at once; see `atomic_writer`."""
    with atomic_writer(path) as file:
        file.write(content)


@contextmanager
def locked(path: str | Path, taken: str, is_removed: bool = False) -> Iterator[None]:
    """Holds a lock that only one process can have at a time.

    Args:
        path: Lock file, created if it does not exist. The operating system releases the
            lock when the process ends, even if it is killed.
        taken: Error message if another process holds the lock.
        is_removed: Whether to remove the file after the block. Default False.

    Raises:
        UserError: If another process holds the lock or the file cannot be created.
        FileNotFoundError: If the directory of the file does not exist.
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
            time.sleep(0.1)  # `is_locked` of another process may hold it briefly.
        try:
            file = path.open("ab")
        except FileNotFoundError:
            raise
        except OSError:
            with user_path(path, "written to"):
                raise
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous holder may have removed the file in the meantime.
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()
    raise UserError(taken)


def is_locked(path: str | Path) -> bool:
    """Returns whether a process holds the lock."""
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
    """Checks that a path is a directory or can become one, and returns it.

    Raises:
        UserError: If the path or one of its parents is a file.
    """
    path = Path(path)
    absolute = path.absolute()
    with user_path(path, "written to"):
        existing = next(p for p in (absolute, *absolute.parents) if p.exists())
    if not existing.is_dir():
        raise UserError(f"{path} cannot be a directory: {existing} is a file.")
    return path
