"""Pipes and other streams, which can be read once, as files that can be read again."""

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
    """Tells whether a path is there and can be read but once, such as a pipe."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False  # Whoever opens it will say what is wrong.
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


class Streams:
    """Those of some paths that are streams.

    Whoever writes to several pipes may do so in any order: as soon as the first is
    wanted, all of them are read at once, into files without a name in the directory for
    temporary files (TMPDIR). The system removes these with the process.

    Args:
        paths: Files of all kinds.

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
                        f"{path} is a stream, which can be read only once, and is "
                        f"named twice{'' if known == path else f', also as {known}'}."
                    )
                self._copies[path] = _Copy(path)

    def open(self, path: str | Path) -> BinaryIO | None:
        """Opens a stream as often as need be; the first time waits for its end.

        Args:
            path: One of the paths.

        Returns:
            What it had to say, from the start, or None if the path is no stream.

        Raises:
            UserError: If it may not be read.
            OSError: If reading it or writing the copy fails.
        """
        if str(path) not in self._copies:
            return None
        for copy in self._copies.values():
            copy.start()
        return self._copies[str(path)].open()


class _Copy:
    """A stream's copy, made by a thread, which nobody waits for at the end."""

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
        return io.BufferedReader(_FromStart(self._file.fileno()))


class _FromStart(io.RawIOBase):
    """Reads an open file with a position of its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = os.preadv(self._descriptor, [buffer], self._position)
        self._position += read
        return read
