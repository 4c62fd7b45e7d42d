"""Runs work on request data outside the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")

SMALL, LARGE = 1 << 14, 1 << 20
"""Bytes. Smaller data than `SMALL` is processed directly, since switching threads would
take longer; data of `LARGE` bytes or more is processed one at a time."""

# Python threads take turns, so more of them would only take more memory.
_quick = ThreadPoolExecutor(1, thread_name_prefix="offload")
_long = ThreadPoolExecutor(1, thread_name_prefix="offload-large")


async def offload(
    size: int, function: Callable[..., Result], *arguments: Any
) -> Result:
    """Calls a function, in a thread if it may take long.

    Large work is done one at a time, and smaller work does not wait for it. While the
    function holds Python's interpreter lock, the event loop waits nevertheless, so it
    has to work in small steps.

    Args:
        size: Size in bytes of the data that the function processes.
        function: Function to call.
        *arguments: Arguments of the function.
    """
    if size < SMALL:
        return function(*arguments)
    pool = _quick if size < LARGE else _long
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(pool, function, *arguments)
