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

    with signals_go_to(note):
        yield lambda: bool(received)


@contextlib.contextmanager
def signals_go_to(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Has a function called for SIGTERM and SIGINT while the block runs."""
    before = {
        number: signal.signal(number, handler)
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
