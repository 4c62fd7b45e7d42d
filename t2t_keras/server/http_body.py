"""Bodies of requests that are refused before they have come whole."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

_IDLE_SECONDS, _MOST_SECONDS = 1.0, 10.0
_FIRST_ERROR = 400


def reading_to_end(app: ASGIApp) -> ASGIApp:
    """Has what is left of a body come, and be dropped, before an error is answered.

    Many clients read no answer before they have sent all, and the answer is lost if the
    connection is closed on them.

    Args:
        app: What answers requests, and may do so early.
    """

    async def whole(scope: Scope, receive: Receive, send: Send) -> None:
        # Who asks first whether to send a body is told not to.
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
        async with asyncio.timeout(_MOST_SECONDS):
            while is_coming:
                async with asyncio.timeout(_IDLE_SECONDS):
                    is_coming = (await receive()).get("more_body", False)
    except TimeoutError:
        pass  # Then the answer may be lost.
