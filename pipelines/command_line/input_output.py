"""Where a stage's lines come from and where its results go: files, standard streams."""

import contextlib
import errno
import fcntl
import gzip
import io
import os
import stat
import sys
from collections.abc import Iterator
from typing import BinaryIO, TextIO

from t2t_keras.errors import UserError
from t2t_keras.files import NamedOutput, WriteError, atomic_writer, writable_file
from t2t_keras.messages import report

EXIT_FAILURE = 1
"""Something went wrong while running."""
EXIT_USAGE = 2
"""A mistake in the flags or in the input, or a stream that the caller has closed."""

_CLOSED = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_WRONLY}
"""How `reopen_closed` opens /dev/null in the place of each standard descriptor.

Results must not vanish, so standard output cannot be written to, nor can standard input
be read. Messages may vanish: there is nobody to read them.
"""

_STANDARD_OUTPUT = ("-", "/dev/stdout")
_NO_OUTPUT = "Standard output is closed: send it to a file or to /dev/null."


def reopen_closed() -> None:
    """Puts /dev/null in the place of standard streams that the caller has closed.

    The next file to be opened would take the descriptor, and be read as the input, or
    have results and messages written into it. To be called before anything is opened.
    """
    for descriptor, mode in _CLOSED.items():
        try:
            os.fstat(descriptor)
        except OSError:
            # The system gives the lowest descriptor that is free: this one.
            os.open(os.devnull, mode)
            os.set_inheritable(descriptor, True)
    # Python has None for a stream that was closed when it started.
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)


def name_standard_output() -> None:
    """Has errors of writing to standard output say so, whoever prints.

    To be called before anything is printed.
    """
    now = sys.stdout
    if sys.__stdout__ not in (now, None) or not isinstance(now, io.TextIOWrapper):
        return  # What is printed goes elsewhere, as under a test.
    output = NamedOutput(1, "Standard output", closefd=False)
    is_buffered = isinstance(now.buffer, io.BufferedIOBase)  # Not with python -u.
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(output) if is_buffered else output,
        now.encoding,
        now.errors,
        line_buffering=now.line_buffering,
        write_through=now.write_through,
    )


def flush_streams(status: int) -> int:
    """Writes what was printed, as the last thing that a stage does.

    Args:
        status: The stage's exit status.

    Returns:
        The same, or that of a failure if results cannot be written.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        _drop(sys.stdout)
        # Whoever closed a pipe has seen enough.
        if not status and not isinstance(error, BrokenPipeError):
            report(f"error: {message_of(error)}")
        status = status or exit_of(error)
    try:
        sys.stderr.flush()
    except OSError:
        _drop(sys.stderr)
    return status


def message_of(error: OSError) -> str:
    """Returns what to say of an error of writing."""
    return _NO_OUTPUT if _is_closed(error) else str(error)


def exit_of(error: OSError) -> int:
    """Returns the exit status after an error of writing."""
    return EXIT_USAGE if _is_closed(error) else EXIT_FAILURE


def _is_closed(error: OSError) -> bool:
    # As `reopen_closed` leaves standard output; no other output is opened to be read.
    return isinstance(error, WriteError) and error.errno == errno.EBADF


def _drop(stream: TextIO) -> None:
    """Has what remains to be written to a stream go nowhere.

    Python would try once more when it exits, and set an exit status of its own.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_awaited(path: str) -> bool:
    """Tells whether somebody may wait for the answer to each line before the next.

    So it is on standard input, unless that is a file: all of it is there at once, and
    whole windows by optimized graphs are faster.

    Args:
        path: As of `input_lines`.

    Raises:
        UserError: If standard input is wanted and closed.
    """
    return path == "-" and not stat.S_ISREG(os.fstat(_standard_input()).st_mode)


def name_of(path: str) -> str:
    """Returns how messages call an input: "standard input", or the file's path."""
    return "standard input" if path == "-" else path


def input_lines(path: str) -> Iterator[str]:
    """Reads the lines that a stage is to work on.

    Args:
        path: A file, plain or .gz; "-" is standard input, read as it comes.

    Yields:
        Each line; `is_text` tells whether it was UTF-8.

    Raises:
        UserError: If a file cannot be read, or standard input is wanted and closed.
    """
    from t2t_keras.data.lines import decode_line, read_lines

    if path != "-":
        yield from read_lines(path, strict=False)
        return
    # Not by sys.stdin: at its end Python would wait for whoever reads there, and abort.
    with open(_standard_input(), "rb", closefd=False) as file:
        for number, line in enumerate(file, 1):
            yield decode_line(line, name_of(path), number, strict=False)


def check_output(path: str) -> None:
    """Finds out before the work whether its results can be written.

    Args:
        path: As of `open_output`.

    Raises:
        UserError: If they cannot be.
    """
    if path not in _STANDARD_OUTPUT:
        writable_file(path)
    elif _access(1) == os.O_RDONLY:
        raise UserError(_NO_OUTPUT)


@contextlib.contextmanager
def open_output(path: str) -> Iterator[BinaryIO]:
    """Opens a file to write, which appears when it is complete.

    Args:
        path: The file, compressed if it ends in .gz; "-" is standard output, which is
            never replaced, even if it is a file.

    Raises:
        UserError: If it cannot be written to.
    """
    check_output(path)
    if path in _STANDARD_OUTPUT:
        yield sys.stdout.buffer
        return
    with atomic_writer(path) as file:
        if path.endswith(".gz"):
            with gzip.GzipFile(fileobj=file, mode="wb") as compressed:
                yield compressed  # type: ignore[misc]
        else:
            yield file


def _standard_input() -> int:
    """Returns its descriptor."""
    if _access(0) == os.O_WRONLY:
        raise UserError("Standard input is closed: give --input=FILE.")
    return 0


def _access(descriptor: int) -> int:
    """Returns O_RDONLY, O_WRONLY or O_RDWR, by which a descriptor was opened."""
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
