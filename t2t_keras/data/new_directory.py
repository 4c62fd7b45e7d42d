"""Directories that are created completely or not at all, by one process at a time.

Files are written to a hidden directory inside the new one. It is on the same file
system even if the new directory is a mount point. At the end its entries are moved up.
A killed process leaves the hidden directory behind, with a list of the entries that it
had started to move. The next process removes exactly those.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files import (
    is_locked,
    locked,
    name_in_error,
    user_path,
    write_atomically,
)

_HIDDEN = ".unfinished"
_LOCK = "lock"
_CONTENT = "content"
_MOVED = "moved.json"
_ATTEMPTS = 100


@contextlib.contextmanager
def new_directory(path: str | Path, last: str, taken: str) -> Iterator[Path]:
    """Fills a new or empty directory atomically.

    Args:
        path: The directory. Missing parents are created.
        last: Name of the entry that is moved last. If it exists, the directory is
            complete.
        taken: Error message if another process is filling the directory.

    Yields:
        A directory to write to. If the block raises, nothing is left behind.

    Raises:
        UserError: If the directory is not empty, is not writable, or is being filled
            by another process.
        WriteError: If the disk is full.
    """
    path = Path(path).resolve()
    with user_path(path, "written to"):
        existed = path.is_dir()
        if path.exists() and not existed:
            raise UserError(f"{path} is not a directory. Choose another one.")
    hidden = path / _HIDDEN
    if existed and not hidden.exists():
        _check_empty(path)
    with contextlib.ExitStack() as stack:
        _lock(stack, path, taken)
        try:
            _remove_remains(path, last)
            _check_empty(path)
            content = hidden / _CONTENT
            content.mkdir()
            with name_in_error(path):
                yield content
            names = sorted(os.listdir(content), key=lambda name: (name == last, name))
            write_atomically(hidden / _MOVED, json.dumps(names).encode())
            for name in names:
                (content / name).rename(path / name)
        finally:
            _remove_remains(path, last)
            stack.close()
            # Fails if the directory was filled, or if the next process has locked it.
            with contextlib.suppress(OSError):
                hidden.rmdir()
                if not existed:
                    path.rmdir()


def is_being_filled(path: str | Path) -> bool:
    """Returns whether a process is filling the directory with `new_directory`."""
    return is_locked(Path(path) / _HIDDEN / _LOCK)


def _lock(stack: contextlib.ExitStack, path: Path, taken: str) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            (path / _HIDDEN).mkdir(parents=True, exist_ok=True)
            lock = locked(path / _HIDDEN / _LOCK, taken, is_removed=True)
            stack.enter_context(lock)
            return
        except OSError as error:
            # The previous process may be removing the empty directories right now.
            is_gone = isinstance(error, FileNotFoundError)
            if not is_gone or attempt + 1 == _ATTEMPTS:
                with user_path(path, "written to"):
                    raise


def _check_empty(path: Path) -> None:
    if {*os.listdir(path)} - {_HIDDEN}:
        raise UserError(
            f"{path} is not an empty directory. Choose another one, or remove it first."
        )


def _remove_remains(path: Path, last: str) -> None:
    """Removes the unfinished files of this process or of one that was killed."""
    hidden = path / _HIDDEN
    moved = hidden / _MOVED
    if moved.is_file() and not (path / last).exists():
        for name in json.loads(moved.read_text()):
            _remove(path / name)
    for entry in hidden.iterdir():
        if entry.name != _LOCK:
            _remove(entry)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
