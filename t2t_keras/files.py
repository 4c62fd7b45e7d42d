"""Files that appear whole or not at all."""

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from t2t_keras.errors import UserError

_LOCK_ATTEMPTS = 10


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
    """
    path = writable_file(path)
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp hides its files from other users; these are as public as others.
        os.chmod(temporary, _permissions(path))
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


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
    path = Path(path)
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
        except OSError as error:
            raise UserError(f"{path} cannot be written to: {error}") from error
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
    there = next(place for place in (whole, *whole.parents) if place.exists())
    if not there.is_dir():
        raise UserError(f"{path} cannot be a directory: {there} is a file.")
    return path
