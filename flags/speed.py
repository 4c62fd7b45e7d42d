"""How stages that translate make use of the processor."""

import os

from absl import flags

_MOST_AT_ONCE = 8
"""A window of lines has not many more batches."""

CONCURRENT_BATCHES = flags.DEFINE_integer(
    "concurrent_batches",
    0,
    "Batches searched at once, which share the cores; 0: one a core, at most "
    f"{_MOST_AT_ONCE}.",
    0,
)
flags.DEFINE_enum(
    "decode_precision",
    "float32",
    ["float32", "bfloat16", "float16"],
    "What the model computes in. Less than float32 is faster where the processor has "
    "instructions for it, and slower elsewhere.",
)


def concurrency() -> tuple[int, int]:
    """Returns how many batches to search at once, and the threads of each.

    A batch's products are small: two of one thread each are done sooner than one of two
    threads after the other.
    """
    # Not all systems tell which cores this process may use.
    allowed = getattr(os, "sched_getaffinity", None)
    cores = len(allowed(0)) if allowed else os.cpu_count() or 1
    number = CONCURRENT_BATCHES.value or min(cores, _MOST_AT_ONCE)
    return number, max(1, cores // number)
