"""Signals that ask a run to save what it has and end."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

EXIT_SAVED = 75
"""Ended by a signal after saving: the same command line goes on (EX_TEMPFAIL)."""


@contextlib.contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Notes SIGTERM and SIGINT rather than ending at once.

    A second SIGINT does end; a second SIGTERM does not, since a scheduler may send
    it to a process that is saving. What cannot wait sends SIGKILL.

    Yields:
        A function that tells whether a signal has come.
    """
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)

    before = {
        number: signal.signal(number, note)
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
