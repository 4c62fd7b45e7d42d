"""Stolen time: processor time that the host of a virtual machine gave to others."""

from pathlib import Path
from typing import NamedTuple

CLEAN = 3.0
"""A run is clean if less than this percentage of its processor time was stolen."""

_STAT = Path("/proc/stat")


class Times(NamedTuple):
    """Processor time since the machine's start, in ticks of the kernel's clock.

    Attributes:
        used: Time used by this machine.
        stolen: Time for which work was ready but the host ran other machines. 0 on a
            physical machine.
    """

    used: int
    stolen: int


def times() -> Times:
    """Returns the times of all processors together, or zeros if not on Linux."""
    if not _STAT.exists():
        return Times(0, 0)
    fields = _STAT.read_text().split("\n", 1)[0].split()
    user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
    return Times(user + nice + system + irq + softirq, steal)


def percent(before: Times, after: Times) -> float:
    """Returns the percentage of the requested processor time that was stolen."""
    used, stolen = after.used - before.used, after.stolen - before.stolen
    return 100 * stolen / max(used + stolen, 1)
