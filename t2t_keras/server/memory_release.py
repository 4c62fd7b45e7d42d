"""Returns unused memory to the system."""

import contextlib
import ctypes
import gc
import sys


def keep_for_good() -> None:
    """Excludes all current objects from later garbage collections.

    Modules hold hundreds of thousands of objects that stay until the process ends.
    Without them a garbage collection is too short to delay requests noticeably.
    """
    gc.collect()
    gc.freeze()


def give_back_memory() -> None:
    """Collects garbage and returns free memory to the system where possible.

    A graph's Python objects form reference cycles, which only the garbage collector
    frees, and the C library keeps freed memory.
    """
    gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # Not the GNU C library.
            ctypes.CDLL(None).malloc_trim(0)
