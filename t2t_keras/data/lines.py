"""Lines of text files: UTF-8, plain or .gz, with errors that name file and line.

What is to be learned from has to be UTF-8. Of what is to be translated or scored a line
that is none costs nothing but itself: its invalid bytes become halves of surrogate
pairs, as which no text has them (PEP 383).
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from t2t_keras.counted import counted
from t2t_keras.errors import UserError
from t2t_keras.files import user_path

_GZIP = b"\x1f\x8b"
"""What begins a compressed file, and no UTF-8."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def _open(path: Path) -> BinaryIO:
    with user_path(path, "read"):
        if path.is_dir():
            raise UserError(f"{path} is a directory; a file is needed.")
        if not path.exists():
            raise UserError(f"No such file: {path}")
        return path.open("rb")


def _decompressed(path: Path, file: Any) -> Any:
    # A pipe's name does not tell.
    is_compressed = path.suffix == ".gz" or file.peek(len(_GZIP)).startswith(_GZIP)
    return gzip.GzipFile(fileobj=file) if is_compressed else file


def decode_line(line: bytes, path: str | Path, number: int, strict: bool = True) -> str:
    """Turns a line of a file into text.

    Only a line feed ends a line: a NUL, a form feed or U+2028 inside stays inside,
    so that two files stay aligned whatever they hold.

    Args:
        line: The bytes, with or without the line end.
        path: Where they were read, for the message.
        number: The line's number from 1, for the message.
        strict: Whether invalid UTF-8 is an error. Default True.

    Returns:
        The text without line end, and without a byte-order mark on line 1.

    Raises:
        UserError: If the bytes are no UTF-8 and `strict`.
    """
    try:
        text = line.decode("utf-8", "strict" if strict else "surrogateescape")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}:{number}: invalid UTF-8 at byte {error.start + 1} of the line "
            f"({line[error.start : error.end]!r}). Convert the file to UTF-8, for "
            "example with iconv."
        ) from error
    if number == 1:
        text = text.removeprefix("\ufeff")
    return text.rstrip("\r\n")


def is_text(line: str) -> bool:
    """Tells whether a line was UTF-8 when it was read."""
    return not _SURROGATE.search(line)


def readable(line: str) -> str:
    """Returns a line with a replacement character for each byte that was no UTF-8."""
    return _SURROGATE.sub("\ufffd", line)


def read_lines(
    path: str | Path, content: BinaryIO | None = None, strict: bool = True
) -> Iterator[str]:
    """Yields the lines of a UTF-8 file, plain or .gz, without their ends.

    Args:
        path: The file.
        content: Where to read it, if not there; it is closed at the end.
        strict: Whether invalid UTF-8 is an error. Default True.

    Raises:
        UserError: If the file is missing, damaged, or not UTF-8 and `strict`.
    """
    path = Path(path)
    with content or _open(path) as opened, _decompressed(path, opened) as file:
        number = 0
        try:
            for number, line in enumerate(file, 1):
                yield decode_line(line, path, number, strict)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(
                f"{path}:{number + 1}: damaged gzip file: {error}"
            ) from error


def align_lines(
    sources: Iterator[str],
    targets: Iterator[str],
    source_path: str | Path,
    target_path: str | Path,
) -> Iterator[tuple[str, str]]:
    """Yields the lines of two files side by side.

    Args:
        sources: The lines of one.
        targets: Those of the other.
        source_path: Where the first were read, for the message.
        target_path: Where the others were read, likewise.

    Raises:
        UserError: If there are more of one than of the other.
    """
    number = 0
    for line in sources:
        number += 1
        counterpart = next(targets, None)
        if counterpart is None:
            raise _misaligned(source_path, number, target_path)
        yield line, counterpart
    if next(targets, None) is not None:
        raise _misaligned(target_path, number + 1, source_path)


def _misaligned(longer: str | Path, number: int, shorter: str | Path) -> UserError:
    return UserError(
        f"{longer}:{number}: this line has no counterpart: {shorter} ends after "
        f"{counted(number - 1, 'line')}. Both files of a pair must have the same "
        "number of lines."
    )
