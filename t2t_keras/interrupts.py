"""Signals that ask a process to finish what it does and end."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Notes SIGTERM and SIGINT rather than ending at once.

    A second SIGINT does end; a second SIGTERM does not, since a scheduler may send
    it to a process that is saving. What cannot wait sends SIGKILL.

    Python hooks signals in the main thread only. In any other thread they keep doing
    what they do, and none is noted.

    Yields:
        A function that tells whether a signal has come.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

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
            # None is a handler that was not set from Python, and cannot be again.
            signal.signal(number, signal.SIG_DFL if previous is None else previous)
