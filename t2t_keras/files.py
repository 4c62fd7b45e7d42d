"""Files that appear whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_writer(path: str | Path) -> Iterator[BinaryIO]:
    """Opens a file that takes its name only when all of it is on disk.

    Args:
        path: The final name; a file that is there already is replaced. What is no
            ordinary file, such as a pipe or `/dev/null`, is written to directly.

    Yields:
        A binary file to write. If the block raises, nothing is left behind.

    Raises:
        ValueError: If no file can have that name.
    """
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a directory; a file was to be written there.")
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    # The file that a link points to is replaced, not the link.
    path = path.resolve()
    if not path.parent.is_dir():
        raise ValueError(
            f"There is no directory {path.parent} to write {path.name} to."
        )
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp hides its files from other users; these are as public as others.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_atomically(path: str | Path, content: bytes) -> None:
    """Writes a whole file at once; see `atomic_writer`."""
    with atomic_writer(path) as file:
        file.write(content)


def directory_at(path: str | Path) -> Path:
    """Returns a path that is a directory, or may become one.

    Raises:
        ValueError: If there is a file in its place, or in that of a parent.
    """
    path = Path(path)
    whole = path.absolute()
    there = next(place for place in (whole, *whole.parents) if place.exists())
    if not there.is_dir():
        raise ValueError(f"{path} cannot be a directory: {there} is a file.")
    return path
