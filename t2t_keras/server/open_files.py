"""How many files a process may have open, sockets among them."""

import contextlib
import resource

_ENOUGH = 65_536
_MOST_CONNECTIONS = 4096


def max_connections() -> int:
    """Raises the limit of open files to what the system allows.

    Returns:
        How many connections each protocol may have, so that both leave half of the
        files to all else.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(soft, _ENOUGH)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return min(_MOST_CONNECTIONS, soft // 4)
