"""Handling of signals that ask a process to shut down gracefully."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def stop_requested() -> Iterator[Callable[[], bool]]:
    """Records SIGTERM and SIGINT instead of ending the process immediately.

    A second SIGINT ends the process. A second SIGTERM does not, since a scheduler may
    send it while the process is saving.

    Python handles signals only in the main thread. In any other thread, signals keep
    their effect and are not recorded.

    Yields:
        A function that returns whether a signal has been received.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def record(number: int, frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)

    with handle_signals(record):
        yield lambda: bool(received)


@contextlib.contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Installs a handler for SIGTERM and SIGINT while the block runs."""
    before = {
        number: signal.signal(number, handler)
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, previous in before.items():
            # None means a handler not set from Python, which cannot be restored.
            signal.signal(number, signal.SIG_DFL if previous is None else previous)
