"""Lines of text files: UTF-8, plain or .gz, with errors that name file and line."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

_GZIP = b"\x1f\x8b"
"""What begins a compressed file, and no UTF-8."""


def _open(path: Path) -> BinaryIO:
    if path.is_dir():
        raise ValueError(f"{path} is a directory; a file is needed.")
    if not path.exists():
        raise ValueError(f"No such file: {path}")
    return path.open("rb")


def _decompressed(path: Path, file: Any) -> Any:
    # A pipe's name does not tell.
    is_compressed = path.suffix == ".gz" or file.peek(len(_GZIP)).startswith(_GZIP)
    return gzip.GzipFile(fileobj=file) if is_compressed else file


def decode_line(line: bytes, path: str | Path, number: int) -> str:
    """Turns a line of a file into text.

    Only a line feed ends a line: a NUL, a form feed or U+2028 inside stays inside,
    so that two files stay aligned whatever they hold.

    Args:
        line: The bytes, with or without the line end.
        path: Where they were read, for the message.
        number: The line's number from 1, for the message.

    Returns:
        The text without line end, and without a byte-order mark on line 1.

    Raises:
        ValueError: If the bytes are no UTF-8.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}:{number}: invalid UTF-8 at byte {error.start + 1} of the line "
            f"({line[error.start : error.end]!r}). Convert the file to UTF-8, for "
            "example with iconv."
        ) from error
    if number == 1:
        text = text.removeprefix("\ufeff")
    return text.rstrip("\r\n")


def read_lines(path: str | Path, content: BinaryIO | None = None) -> Iterator[str]:
    """Yields the lines of a UTF-8 file, plain or .gz, without their ends.

    Args:
        path: The file.
        content: Where to read it, if not there; it is closed at the end.

    Raises:
        ValueError: If the file is missing, damaged, or not UTF-8.
    """
    path = Path(path)
    with content or _open(path) as opened, _decompressed(path, opened) as file:
        number = 0
        try:
            for number, line in enumerate(file, 1):
                yield decode_line(line, path, number)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(
                f"{path}:{number + 1}: damaged gzip file: {error}"
            ) from error
