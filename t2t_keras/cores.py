"""Division of the cores among concurrent batches or replicas."""

import os


def usable_cores() -> int:
    """Returns the number of cores that this process may use."""
    # Not available on all systems.
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def pool_threads(at_once: int) -> int:
    """Returns the number of intra-op threads for TensorFlow.

    TensorFlow has one pool of these threads for the whole process, and a thread that
    divides an operation among the pool waits. Therefore the pool has as many threads as
    there are cores. A pool of one thread is not used: each batch computes in its own
    thread. This is faster if the batches occupy all cores, since the products of a
    batch are small.

    Args:
        at_once: Number of concurrent batches or replicas.
    """
    cores = usable_cores()
    return 1 if at_once >= cores else cores
