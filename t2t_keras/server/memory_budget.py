"""Memory budget of a server."""

import os
from pathlib import Path
from typing import NamedTuple

from t2t_keras.errors import UserError

PARSING_FACTOR = 20
"""Memory needed to parse a message, as a multiple of its size.

Large messages are parsed one at a time.
"""

_DEFAULT_PERCENT = 80
_MIN_GRAPHS, _GRAPHS_PERCENT = 512 << 20, 25
"""For graphs, one per signature, and everything else that is not a tensor."""
_MIN_TENSORS = 128 << 20
_CONTAINER = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


class Memory(NamedTuple):
    """Memory budget of a process.

    Attributes:
        total: Total number of bytes.
        tensors: Bytes for weights and computed tensors.
        requests: Bytes that all requests together may hold.
    """

    total: int
    tensors: int
    requests: int

    def available_bytes(self) -> int:
        """Returns how many more bytes the process may allocate now."""
        return self.total - _resident()


def divide_memory(
    megabytes: int | None, max_request_bytes: int, max_response_bytes: int
) -> Memory:
    """Divides the memory that the process has not allocated yet.

    Args:
        megabytes: Total memory of the process in MiB. Default 80% of the memory of the
            machine or the container.
        max_request_bytes: Maximum size of a request in bytes.
        max_response_bytes: Maximum size of a response in bytes.

    Raises:
        UserError: If `megabytes` is too small for a small model and a request.
    """
    total = megabytes << 20 if megabytes else system_memory() * _DEFAULT_PERCENT // 100
    used = _resident()
    graphs = max(_MIN_GRAPHS, (total - used) * _GRAPHS_PERCENT // 100)
    reserved = used + graphs + PARSING_FACTOR * max_request_bytes
    # A message and its tensors; a response's tensors and its text.
    request = 2 * (max_request_bytes + max_response_bytes)
    requests = max((total - reserved) // 8, request)
    tensors = total - reserved - requests
    if tensors < _MIN_TENSORS and megabytes:
        minimum = (reserved + request + _MIN_TENSORS >> 20) + 1
        raise UserError(
            f"--max_memory_mb must be at least {minimum:,}: the server takes "
            f"{used >> 20:,} MiB before it loads a model and must parse requests of "
            f"{max_request_bytes:,} bytes and compute responses of "
            f"{max_response_bytes:,} bytes. Received: {megabytes:,}"
        )
    return Memory(total, max(tensors, _MIN_TENSORS), requests)


def system_memory() -> int:
    """Returns the memory of the machine, or of the container if less, in bytes."""
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _CONTAINER:
        try:
            size = min(size, int(path.read_text()))
        except (OSError, ValueError):  # No such file, or no limit: "max".
            continue
    return size


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
