"""Work on what clients send, away from the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")

SMALL, LARGE = 1 << 14, 1 << 20
"""Bytes below which work is done at once, as a change of threads would take longer; and
from which on it waits for other work of its size."""

# Threads of Python take turns, so more would not be faster but take more memory.
_quick = ThreadPoolExecutor(1, thread_name_prefix="offload")
_long = ThreadPoolExecutor(1, thread_name_prefix="offload-large")


async def offload(
    size: int, function: Callable[..., Result], *arguments: Any
) -> Result:
    """Calls a function, in a thread if it may take a while.

    What is large is done one after the other, and what is smaller does not wait for it.
    Where the function holds Python's interpreter lock, the event loop waits all the
    same: it has to work in small steps.

    Args:
        size: Bytes that it works on.
        function: What to call.
        *arguments: What to call it with.
    """
    if size < SMALL:
        return function(*arguments)
    pool = _quick if size < LARGE else _long
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(pool, function, *arguments)
