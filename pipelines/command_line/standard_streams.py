"""Input and output of stages: files and standard streams."""

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
from t2t_keras.pipelines.command_line.exit_status import EXIT_FAILURE, EXIT_USAGE

_CLOSED = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_WRONLY}
"""Mode in which `reopen_closed_streams` opens /dev/null for each standard descriptor.

Reading standard input and writing to standard output must fail, so that no result is
lost silently. Writing to standard error may succeed: nobody reads the messages.
"""

_STANDARD_OUTPUT = ("-", "/dev/stdout")
_NO_OUTPUT = "Standard output is closed: redirect it to a file or to /dev/null."


def reopen_closed_streams() -> None:
    """Opens /dev/null for each standard stream that the caller has closed.

    Otherwise the next file that is opened gets the free descriptor, and is read as the
    input or overwritten with results and messages. Must be called before any file is
    opened.
    """
    for descriptor, mode in _CLOSED.items():
        try:
            os.fstat(descriptor)
        except OSError:
            # The system assigns the lowest free descriptor: this one.
            os.open(os.devnull, mode)
            os.set_inheritable(descriptor, True)
    # Python sets a stream to None if it was closed at start-up.
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", errors="backslashreplace", closefd=False)


def name_standard_output() -> None:
    """Makes write errors on standard output name it, whichever code prints.

    Must be called before anything is printed.
    """
    now = sys.stdout
    if sys.__stdout__ not in (now, None) or not isinstance(now, io.TextIOWrapper):
        return  # Standard output is captured, as in a test.
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
    """Flushes the standard streams when a stage ends.

    Args:
        status: Exit status of the stage.

    Returns:
        The same status, or the status of a failure if results cannot be written.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        _drop(sys.stdout)
        # A reader that closes the pipe early, such as head, is not an error.
        if not status and not isinstance(error, BrokenPipeError):
            report(f"error: {write_error_message(error)}")
        status = status or write_error_status(error)
    try:
        sys.stderr.flush()
    except OSError:
        _drop(sys.stderr)
    return status


def write_error_message(error: OSError) -> str:
    """Returns the message for an error in writing output."""
    return _NO_OUTPUT if _is_closed(error) else str(error)


def write_error_status(error: OSError) -> int:
    """Returns the exit status for an error in writing output."""
    return EXIT_USAGE if _is_closed(error) else EXIT_FAILURE


def _is_closed(error: OSError) -> bool:
    # From `reopen_closed_streams`: no other output is opened for reading only.
    return isinstance(error, WriteError) and error.errno == errno.EBADF


def _drop(stream: TextIO) -> None:
    """Discards what remains in the buffer of a stream.

    Otherwise Python tries to flush it again at exit, and changes the exit status.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_interactive(path: str) -> bool:
    """Returns whether the sender of the lines may wait for an answer to each of them.

    True for standard input, unless it is a regular file. The lines of a file are all
    available at once, and are processed faster in large windows by optimized graphs.

    Args:
        path: Input path, as for `input_lines`.

    Raises:
        UserError: If the path is standard input and that is closed.
    """
    return path == "-" and not stat.S_ISREG(os.fstat(_standard_input()).st_mode)


def input_name(path: str) -> str:
    """Returns the name of an input in messages: "standard input" or the path."""
    return "standard input" if path == "-" else path


def input_lines(path: str) -> Iterator[str]:
    """Reads the input lines of a stage.

    Args:
        path: A file, plain text or .gz; "-" is standard input, read as lines arrive.

    Yields:
        Each line. `is_text` returns whether it was valid UTF-8.

    Raises:
        UserError: If the file cannot be read, or standard input is closed.
    """
    from t2t_keras.data.text_lines import decode_line, read_lines

    if path != "-":
        yield from read_lines(path, strict=False)
        return
    # Not sys.stdin: at exit, Python would wait for a thread that reads it, and abort.
    with open(_standard_input(), "rb", closefd=False) as file:
        for number, line in enumerate(file, 1):
            yield decode_line(line, input_name(path), number, strict=False)


def check_output(path: str) -> None:
    """Checks that an output can be written, before the work starts.

    Args:
        path: Output path, as for `open_output`.

    Raises:
        UserError: If it cannot be written to.
    """
    if path not in _STANDARD_OUTPUT:
        writable_file(path)
    elif _access(1) == os.O_RDONLY:
        raise UserError(_NO_OUTPUT)


@contextlib.contextmanager
def open_output(path: str) -> Iterator[BinaryIO]:
    """Opens an output file, which appears once it is complete.

    Args:
        path: The file, compressed if its name ends in .gz; "-" is standard output,
            which is written to directly, even if it is a file.

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
    """Returns the descriptor of standard input, or raises if it is closed."""
    if _access(0) == os.O_WRONLY:
        raise UserError("Standard input is closed: use --input=FILE.")
    return 0


def _access(descriptor: int) -> int:
    """Returns the access mode of a descriptor: O_RDONLY, O_WRONLY or O_RDWR."""
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
