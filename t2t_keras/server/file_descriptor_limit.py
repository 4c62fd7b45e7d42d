"""Limit on open files, including sockets."""

import contextlib
import resource

_MAX_OPEN_FILES = 65_536
_MAX_CONNECTIONS = 4096


def max_connections() -> int:
    """Raises the limit on open files to the maximum that the system allows.

    Returns:
        Maximum number of connections of each protocol; both together leave half of the
        open files for everything else.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(soft, _MAX_OPEN_FILES)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return min(_MAX_CONNECTIONS, soft // 4)
