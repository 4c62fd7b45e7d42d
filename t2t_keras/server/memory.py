"""How much memory a server may take, and for what."""

import os
from pathlib import Path
from typing import NamedTuple

from t2t_keras.errors import UserError

READING = 20
"""Times its bytes that a message takes while it is read, large ones in turn."""

_DEFAULT_PERCENT = 80
_LEAST_GRAPHS, _GRAPHS_PERCENT = 512 << 20, 25
"""For graphs, of which each signature has its own, and all else that is no tensor."""
_LEAST_TENSORS = 128 << 20
_CONTAINER = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


class Memory(NamedTuple):
    """What a process may take.

    Attributes:
        total: Bytes, all in all.
        tensors: Bytes for weights and for what is computed.
        requests: Bytes that all requests at once may hold.
    """

    total: int
    tensors: int
    requests: int

    def room(self) -> int:
        """Returns the bytes that the process may still take now."""
        return self.total - _resident()


def divided(
    megabytes: int | None, max_request_bytes: int, max_response_bytes: int
) -> Memory:
    """Divides what the process may take, and has not taken yet.

    Args:
        megabytes: MiB that the process may take, all in all. Default 80% of the memory
            of the machine, or of the container.
        max_request_bytes: Maximum number of bytes of a request.
        max_response_bytes: Maximum number of bytes of an answer.

    Raises:
        UserError: If `megabytes` are too few for a small model and a request.
    """
    total = megabytes << 20 if megabytes else available() * _DEFAULT_PERCENT // 100
    taken = _resident()
    graphs = max(_LEAST_GRAPHS, (total - taken) * _GRAPHS_PERCENT // 100)
    fixed = taken + graphs + READING * max_request_bytes
    # A message and its tensors; an answer's tensors and its text.
    request = 2 * (max_request_bytes + max_response_bytes)
    requests = max((total - fixed) // 8, request)
    tensors = total - fixed - requests
    if tensors < _LEAST_TENSORS and megabytes:
        least = (fixed + request + _LEAST_TENSORS >> 20) + 1
        raise UserError(
            f"--max_memory_mb is at least {least:,}: the server takes {taken >> 20:,} "
            f"before it loads a model, and has to read requests of "
            f"{max_request_bytes:,} bytes and to compute answers of "
            f"{max_response_bytes:,}. Received: {megabytes:,}"
        )
    return Memory(total, max(tensors, _LEAST_TENSORS), requests)


def available() -> int:
    """Returns the bytes of memory that the machine has, or the container if fewer."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _CONTAINER:
        try:
            found = min(found, int(path.read_text()))
        except (OSError, ValueError):  # None such, or without a limit: "max".
            continue
    return found


def _resident() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
