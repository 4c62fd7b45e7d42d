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
        path: The final name; a file that is there already is replaced.

    Yields:
        A binary file to write. If the block raises, nothing is left behind.
    """
    path = Path(path)
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
