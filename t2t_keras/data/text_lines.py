"""Lines of UTF-8 text files, plain or .gz, with errors that name file and line.

Training text must be valid UTF-8. In text to translate or score, an invalid line
affects only itself: its invalid bytes become lone surrogates (PEP 383), which valid
text never contains.
"""

import contextlib
import gzip
import itertools
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from t2t_keras.errors import UserError
from t2t_keras.files import user_path
from t2t_keras.plurals import counted

_GZIP = b"\x1f\x8b"
"""Magic number of a gzip file. No UTF-8 text starts with it."""

CHUNK_LINES = 4096
"""Number of lines that are read and processed together."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def _open(path: Path) -> BinaryIO:
    with user_path(path, "read"):
        if path.is_dir():
            raise UserError(f"{path} is a directory. Give a file.")
        if not path.exists():
            raise UserError(f"No such file: {path}")
        return path.open("rb")


def _decompressed(path: Path, file: Any) -> Any:
    # The name of a pipe does not show whether its content is compressed.
    is_compressed = path.suffix == ".gz" or file.peek(len(_GZIP)).startswith(_GZIP)
    return gzip.GzipFile(fileobj=file) if is_compressed else file


def decode_line(line: bytes, path: str | Path, number: int, strict: bool = True) -> str:
    """Decodes a line of a file.

    Only a line feed ends a line. NUL, form feed and U+2028 stay in the line, so that
    two files stay aligned whatever they contain.

    Args:
        line: The bytes, with or without the line feed.
        path: File name for the error message.
        number: Line number for the error message, starting at 1.
        strict: Whether invalid UTF-8 is an error. Default True.

    Returns:
        The text without the line end. On line 1, a byte-order mark is removed, too.

    Raises:
        UserError: If `strict` is True and the bytes are not UTF-8.
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
    """Returns whether a line was valid UTF-8 when it was read."""
    return not _SURROGATE.search(line)


def readable(line: str) -> str:
    """Returns a line with U+FFFD in place of each invalid byte."""
    return _SURROGATE.sub("\ufffd", line)


def read_lines(
    path: str | Path, content: BinaryIO | None = None, strict: bool = True
) -> Iterator[str]:
    """Yields the lines of a UTF-8 file, plain or .gz, without line ends.

    Args:
        path: The file.
        content: Stream to read instead of opening `path`; it is closed at the end.
            Default None.
        strict: Whether invalid UTF-8 is an error. Default True.

    Raises:
        UserError: If the file is missing or damaged, or if `strict` is True and it is
            not UTF-8.
    """
    path = Path(path)
    with content or _open(path) as opened, _decompressed(path, opened) as file:
        number = 0
        with _named_gzip_error(path, lambda: number):
            for number, line in enumerate(file, 1):
                yield decode_line(line, path, number, strict)


@contextlib.contextmanager
def _named_gzip_error(path: Path, lines: Callable[[], int]) -> Iterator[None]:
    """Adds the name and the line to errors of a damaged gzip file."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path}:{lines() + 1}: damaged gzip file: {error}") from error


def read_chunks(
    path: str | Path, content: BinaryIO | None = None, lines: int = CHUNK_LINES
) -> Iterator[list[str]]:
    """Yields the lines of a UTF-8 file in chunks, which is faster than one by one.

    Args:
        path: As for `read_lines`.
        content: As for `read_lines`.
        lines: Number of lines of each chunk but the last. Default 4,096.

    Raises:
        UserError: If the file is missing, damaged, or not UTF-8.
    """
    path = Path(path)
    with content or _open(path) as opened, _decompressed(path, opened) as file:
        number = 0
        raw: list[bytes] = []
        with _named_gzip_error(path, lambda: number + len(raw)):
            while True:
                # `extend` keeps the lines before an error, for the error message.
                raw.extend(itertools.islice(file, lines))
                if not raw:
                    return
                yield _decode_lines(raw, path, number + 1)
                number += len(raw)
                raw.clear()


def _decode_lines(raw: list[bytes], path: Path, first: int) -> list[str]:
    """Decodes consecutive lines of a file, like `decode_line`."""
    try:
        text = b"".join(raw).decode("utf-8")
    except UnicodeDecodeError:
        return [decode_line(line, path, i) for i, line in enumerate(raw, first)]
    if first == 1:
        text = text.removeprefix("\ufeff")
    decoded = text.removesuffix("\n").split("\n")
    return [line.rstrip("\r") for line in decoded] if "\r" in text else decoded


def align_chunks(
    sources: Iterator[list[str]],
    targets: Iterator[list[str]],
    source_path: str | Path,
    target_path: str | Path,
) -> Iterator[tuple[list[str], list[str]]]:
    """Yields chunks of corresponding lines of two files; see `align_lines`.

    Args:
        sources: Chunks of the source file, as returned by `read_chunks`.
        targets: Chunks of the same size of the target file.
        source_path: Name of the source file for the error message.
        target_path: Name of the target file for the error message.

    Raises:
        UserError: If the files have different numbers of lines.
    """
    number = 0
    none: list[str] = []
    for source, target in itertools.zip_longest(sources, targets, fillvalue=none):
        both = min(len(source), len(target))
        number += both
        if len(source) > both:
            raise _misaligned(source_path, number + 1, target_path)
        if len(target) > both:
            raise _misaligned(target_path, number + 1, source_path)
        yield source, target


def align_lines(
    sources: Iterator[str],
    targets: Iterator[str],
    source_path: str | Path,
    target_path: str | Path,
) -> Iterator[tuple[str, str]]:
    """Yields pairs of corresponding lines of two files.

    Args:
        sources: Lines of the source file.
        targets: Lines of the target file.
        source_path: Name of the source file for the error message.
        target_path: Name of the target file for the error message.

    Raises:
        UserError: If the files have different numbers of lines.
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
