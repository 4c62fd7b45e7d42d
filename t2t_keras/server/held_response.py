"""HTTP responses whose bytes count as held until the client has read them."""

import contextlib

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

_PART = 1 << 16


class HeldResponse(Response):
    """A JSON body that is sent in parts as fast as the client reads.

    Args:
        content: The body.
        held: Closed when the body has been sent or cannot be sent.
    """

    def __init__(self, content: bytes, held: contextlib.ExitStack) -> None:
        super().__init__(content, media_type="application/json")
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response."""
        with self._held:
            await send(
                {
                    "type": "http.response.start",
                    "status": self.status_code,
                    "headers": self.raw_headers,
                }
            )
            for start in range(0, len(self.body), _PART):
                end = start + _PART
                await send(
                    {
                        "type": "http.response.body",
                        "body": self.body[start:end],
                        "more_body": end < len(self.body),
                    }
                )
