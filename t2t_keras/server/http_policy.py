"""What holds for every HTTP request, whatever it asks: where it comes from, headers."""

import ipaddress
import json
from collections.abc import Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

_RETRY_SECONDS = 1
_CORS = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "POST, GET",
    "access-control-allow-headers": "Content-Type, Authorization",
}
_BY_STATUS = {
    401: {"www-authenticate": "Bearer"},
    429: {"retry-after": str(_RETRY_SECONDS)},
    503: {"retry-after": str(_RETRY_SECONDS)},
}
ANY = "*"


class HttpPolicy:
    """Refuses requests that a foreign web page makes, and adds headers to answers.

    A page of any site can have its visitors' browsers send requests to this server.
    They name the site in `Origin`; or, if the site has given its own name the server's
    address (DNS rebinding), in `Host`. Whoever else sends requests is not held up:
    names without a dot cannot be registered by strangers, and addresses are no names.

    Args:
        app: Answers what is not refused.
        allowed_hosts: Names by which the server may be called, beside addresses and
            names without a dot; with ".example.com", all that end so; with "*", any.
        allow_origins: Whether pages of all sites may use the server: TensorFlow
            Serving's `--rest_api_enable_cors_support`. Default False.
    """

    def __init__(
        self,
        app: ASGIApp,
        allowed_hosts: Collection[str] = (),
        allow_origins: bool = False,
    ) -> None:
        self._app = app
        self._allowed_hosts = [name.lower() for name in allowed_hosts]
        self._allow_origins = allow_origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Is called by the HTTP server."""
        added = dict(_CORS) if self._allow_origins else {}

        async def send_more(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = {**added, **_BY_STATUS.get(message["status"], {})}
                message["headers"] = [
                    *message.get("headers", ()),
                    *(
                        (name.encode(), value.encode())
                        for name, value in headers.items()
                    ),
                ]
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._refusal(headers)
        if refusal:
            await _answer(send_more, 403, {"error": refusal})
        elif scope["method"] == "OPTIONS" and self._allow_origins:
            if headers.get("origin"):
                await _answer(send_more, 200, {})
            else:
                error = "A page that asks what it may do names its site in Origin."
                await _answer(send_more, 400, {"error": error})
        else:
            await self._app(scope, receive, send_more)

    def _refusal(self, headers: Headers) -> str | None:
        """Returns why a request is refused, or None."""
        host = headers.get("host", "")
        if not self._may_be_called(host):
            return (
                f"This server is not called {host[:200]!r}. If it is, start it with "
                "--allowed_hosts=NAME."
            )
        origin = headers.get("origin")
        if origin is None or self._allow_origins or self._is_own(origin, host):
            return None
        of_all = "--rest_api_enable_cors_support allows the pages of all sites."
        name = _site(origin)
        if name is None:
            return (
                f"The request comes from a page that belongs to no site (Origin: "
                f"{origin[:200]!r}), such as a file or a frame in a sandbox. Open the "
                f"server's own page instead; {of_all}"
            )
        return (
            f"Pages of {origin[:200]!r} may not use this server. If that is where its "
            f"own page is, behind a proxy, start it with --allowed_hosts={name[:200]}; "
            f"{of_all}"
        )

    def _may_be_called(self, host: str) -> bool:
        name = _name(host)
        if name is None:
            return False
        return "." not in name or _is_address(name) or self._is_allowed(name)

    def _is_allowed(self, name: str) -> bool:
        return any(
            allowed in (ANY, name) or (allowed[:1] == "." and name.endswith(allowed))
            for allowed in [*self._allowed_hosts, ".localhost"]
        )

    def _is_own(self, origin: str, host: str) -> bool:
        name = _site(origin)
        if name is None:
            return False
        # A proxy may have put its own name for the server into Host.
        return urlsplit(origin).netloc.lower() == host.lower() or self._is_allowed(name)


def _site(origin: str) -> str | None:
    """Returns the name or address in an Origin header, or None if it is of no site."""
    try:
        site = urlsplit(origin)
        return site.hostname if site.scheme in ("http", "https") else None
    except ValueError:
        return None


def _name(host: str) -> str | None:
    """Returns the name or address in a Host header, or None if it is none."""
    try:
        parts = urlsplit(f"//{host}")
        name, _ = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.netloc != host or "@" in host:
        return None
    # HTTP/1.0 has no Host, and some clients leave it empty.
    return (name or "").removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _answer(send: Send, status: int, content: dict[str, str]) -> None:
    body = json.dumps(content).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
