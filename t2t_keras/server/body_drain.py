"""Drains the body of a request that is rejected before it has arrived."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

_IDLE_SECONDS, _MAX_SECONDS = 1.0, 10.0
_FIRST_ERROR = 400


def drain_before_error(app: ASGIApp) -> ASGIApp:
    """Reads and drops the rest of a request's body before an error response is sent.

    Many clients do not read a response until they have sent the whole body, and lose it
    if the connection is closed before that.

    Args:
        app: ASGI application, which may respond early.
    """

    async def drained(scope: Scope, receive: Receive, send: Send) -> None:
        # A client with `Expect: 100-continue` has not sent the body yet.
        has_more = all(name != b"expect" for name, _ in scope["headers"])

        async def receive_part() -> MutableMapping[str, Any]:
            nonlocal has_more
            message = await receive()
            has_more = bool(message.get("more_body"))
            return message

        async def send_after_body(message: MutableMapping[str, Any]) -> None:
            if message.get("status", 0) >= _FIRST_ERROR and has_more:
                await _drain(receive_part)
            await send(message)

        await app(scope, receive_part, send_after_body)

    return drained


async def _drain(receive: Receive) -> None:
    """Drops the rest of a body, as long as it keeps coming."""
    has_more = True
    try:
        async with asyncio.timeout(_MAX_SECONDS):
            while has_more:
                async with asyncio.timeout(_IDLE_SECONDS):
                    has_more = (await receive()).get("more_body", False)
    except TimeoutError:
        pass  # The response may be lost then.
