"""Gives the memory of what is no longer used back to the system."""

import contextlib
import ctypes
import gc
import sys


def keep_for_good() -> None:
    """Spares later collections of garbage all objects that there are now.

    Modules hold hundreds of thousands of objects that stay until the process ends.
    Without them a collection takes so little time that no request notices.
    """
    gc.collect()
    gc.freeze()


def give_back_memory() -> None:
    """Collects garbage, and returns what is free to the system where that can be done.

    A graph's Python objects refer to each other, so they stay until garbage is
    collected; and the C library keeps what is freed.
    """
    gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # Not the GNU C library.
            ctypes.CDLL(None).malloc_trim(0)
