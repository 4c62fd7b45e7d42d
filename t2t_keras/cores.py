"""How work that is done at once shares the cores."""

import os


def usable_cores() -> int:
    """Returns how many cores this process may use."""
    # Not all systems tell.
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def threads_each(at_once: int) -> int:
    """Returns of how many threads an operation may be, with so much work at once.

    A batch's products are small: two of one thread each are done sooner than one of two
    threads after the other.
    """
    return max(1, usable_cores() // at_once)
