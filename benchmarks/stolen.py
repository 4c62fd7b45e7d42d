"""How much of the processors' time a virtual machine's host gave to others."""

from pathlib import Path
from typing import NamedTuple

CLEAN = 3.0
"""Percent of the time asked for from which on a run is not clean."""

_STAT = Path("/proc/stat")


class Times(NamedTuple):
    """Processor time since the machine's start, in ticks of the kernel's clock.

    Attributes:
        used: What ran here.
        stolen: What was ready to run and had to wait for the host; 0 on a machine of
            its own.
    """

    used: int
    stolen: int


def times() -> Times:
    """Reads the times of all processors together; zeros where there is no Linux."""
    if not _STAT.exists():
        return Times(0, 0)
    fields = _STAT.read_text().split("\n", 1)[0].split()
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
    return Times(user + nice + system + irq + softirq, steal)


def percent(before: Times, after: Times) -> float:
    """Returns the percent of the time asked for that was not given."""
    used, stolen = after.used - before.used, after.stolen - before.stolen
    return 100 * stolen / max(used + stolen, 1)
