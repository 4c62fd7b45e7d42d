"""Copies of pipes and other streams, which can be read more than once."""

import io
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from t2t_keras.errors import UserError
from t2t_keras.files import user_path


def is_stream(path: str | Path) -> bool:
    """Returns whether a path exists and can be read only once, such as a pipe."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False  # Opening the path reports the error.
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


class Streams:
    """The streams among some paths.

    A program that writes to several pipes may do so in any order. Therefore all streams
    are copied concurrently as soon as one of them is opened. The copies are unnamed
    files in the directory for temporary files (TMPDIR), which the system removes when
    the process ends.

    Args:
        paths: Files, some of which may be streams.

    Raises:
        UserError: If a stream is named twice.
    """

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self._copies: dict[str, _Copy] = {}
        named: dict[tuple[int, int], str] = {}
        for path in map(str, paths):
            if is_stream(path):
                status = os.stat(path)
                known = named.setdefault((status.st_dev, status.st_ino), path)
                if path in self._copies or known != path:
                    raise UserError(
                        f"{path} is a stream, which can be read only once, but it is "
                        f"given twice{'' if known == path else f', also as {known}'}."
                    )
                self._copies[path] = _Copy(path)

    def open(self, path: str | Path) -> BinaryIO | None:
        """Opens the copy of a stream. May be called repeatedly.

        The first call waits until the stream ends.

        Args:
            path: One of the paths.

        Returns:
            The content from the start, or None if the path is not a stream.

        Raises:
            UserError: If the stream may not be read.
            OSError: If reading the stream or writing the copy fails.
        """
        if str(path) not in self._copies:
            return None
        for copy in self._copies.values():
            copy.start()
        return self._copies[str(path)].open()


class _Copy:
    """Copy of a stream, written by a daemon thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._lock = threading.Lock()

    def start(self) -> None:
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115
                self._thread.start()

    def _run(self) -> None:
        try:
            with user_path(self._path, "read"):
                stream = open(self._path, "rb")  # noqa: SIM115
            with stream:
                shutil.copyfileobj(stream, self._file)
            self._file.flush()
        except BaseException as error:
            self._error = error

    def open(self) -> BinaryIO:
        self._thread.join()
        if self._error:
            raise self._error
        return io.BufferedReader(_IndependentReader(self._file.fileno()))


class _IndependentReader(io.RawIOBase):
    """Reads an open file with its own position."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = os.preadv(self._descriptor, [buffer], self._position)
        self._position += read
        return read
