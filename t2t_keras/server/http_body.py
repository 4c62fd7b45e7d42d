"""Drains the body of a request that is rejected before it has arrived."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

_IDLE_SECONDS, _MAX_SECONDS = 1.0, 10.0
_FIRST_ERROR = 400


def reading_to_end(app: ASGIApp) -> ASGIApp:
    """Reads and drops the rest of a request's body before an error response is sent.

    Many clients read no response before they have sent the whole body, and lose the
    response if the connection is closed on them.

    Args:
        app: ASGI application, which may respond early.
    """

    async def whole(scope: Scope, receive: Receive, send: Send) -> None:
        # A client with `Expect: 100-continue` has not sent the body yet.
        is_coming = all(name != b"expect" for name, _ in scope["headers"])

        async def note() -> MutableMapping[str, Any]:
            nonlocal is_coming
            message = await receive()
            is_coming = bool(message.get("more_body"))
            return message

        async def send_after_body(message: MutableMapping[str, Any]) -> None:
            if message.get("status", 0) >= _FIRST_ERROR and is_coming:
                await _read(note)
            await send(message)

        await app(scope, note, send_after_body)

    return whole


async def _read(receive: Receive) -> None:
    """Drops the rest of a body, as long as it keeps coming."""
    is_coming = True
    try:
        async with asyncio.timeout(_MAX_SECONDS):
            while is_coming:
                async with asyncio.timeout(_IDLE_SECONDS):
                    is_coming = (await receive()).get("more_body", False)
    except TimeoutError:
        pass  # The response may be lost then.
