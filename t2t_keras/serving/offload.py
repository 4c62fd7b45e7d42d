"""Work on what clients send, away from the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")

SMALL = 1 << 16
"""Bytes that are handled at once: a change of threads would take longer."""

_THREADS = 2
"""More would not be faster, since Python runs one at a time, but take more memory."""

_pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="offload")


async def offload(
    size: int, function: Callable[..., Result], *arguments: Any
) -> Result:
    """Calls a function, in a thread if it may take a while.

    At most two such calls run at once. Where the function holds Python's interpreter
    lock, the event loop waits all the same: it has to work in small steps.

    Args:
        size: Bytes that it works on.
        function: What to call.
        *arguments: What to call it with.
    """
    if size < SMALL:
        return function(*arguments)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_pool, function, *arguments)
