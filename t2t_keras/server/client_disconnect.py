"""Cancels the work for a request if its client disconnects."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request

Result = TypeVar("Result")


async def while_connected(
    request: Request, response: Coroutine[Any, Any, Result]
) -> Result:
    """Awaits a response, and cancels it if the client disconnects.

    Raises:
        ClientDisconnect: If the client has disconnected.
    """
    tasks: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(response),
        asyncio.ensure_future(_disconnected(request)),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise ClientDisconnect
        return tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        # An error refers to this frame and thus to the request, which would stay in
        # memory until Python collects such cycles.
        del tasks, task


async def _disconnected(request: Request) -> None:
    """Returns when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
