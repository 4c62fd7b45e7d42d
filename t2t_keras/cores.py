"""How work that is done at once shares the cores."""

import os


def usable_cores() -> int:
    """Returns how many cores this process may use."""
    # Not all systems tell.
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def pool_threads(at_once: int) -> int:
    """Returns of how many threads the pool may be that computes operations.

    TensorFlow has one such pool, for all that runs at once, and whoever divides an
    operation among it waits: it must be of all cores. A pool of one is not asked, and
    everything computes in its own thread: where that occupies all cores, it is faster,
    since the products of a batch are small.

    Args:
        at_once: Number of batches or replicas.
    """
    cores = usable_cores()
    return 1 if at_once >= cores else cores
