"""Policy of all HTTP requests: allowed hosts and origins, response headers."""

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
    """Rejects requests from foreign web pages and adds response headers.

    A page of any site can make its visitors' browsers send requests to this server.
    Such requests name the site in `Origin` or, if the site's name resolves to the
    server's address (DNS rebinding), in `Host`. Other clients are not affected:
    strangers cannot register names without a dot, and IP addresses are not names.

    Args:
        app: ASGI application for the accepted requests.
        allowed_hosts: Allowed host names in addition to IP addresses and names without
            a dot; ".example.com" allows all names with that ending, "*" any name.
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
        """Handles a request; called by the HTTP server."""
        cors = dict(_CORS) if self._allow_origins else {}

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = {**cors, **_BY_STATUS.get(message["status"], {})}
                message["headers"] = [
                    *message.get("headers", ()),
                    *(
                        (name.encode(), value.encode())
                        for name, value in headers.items()
                    ),
                ]
            await send(message)

        headers = Headers(scope=scope)
        rejection = self._rejection(headers)
        if rejection:
            await _respond(send_with_headers, 403, {"error": rejection})
        elif scope["method"] == "OPTIONS" and self._allow_origins:
            if headers.get("origin"):
                await _respond(send_with_headers, 200, {})
            else:
                error = "A CORS preflight request must have an Origin header."
                await _respond(send_with_headers, 400, {"error": error})
        else:
            await self._app(scope, receive, send_with_headers)

    def _rejection(self, headers: Headers) -> str | None:
        """Returns why a request is rejected, or None."""
        host = headers.get("host", "")
        if not self._is_allowed_host(host):
            return (
                f"The host name {host[:200]!r} is not allowed. If it is this server's "
                "name, start the server with --allowed_hosts=NAME."
            )
        origin = headers.get("origin")
        if origin is None or self._allow_origins or self._is_same_site(origin, host):
            return None
        cors = "--rest_api_enable_cors_support allows the pages of all sites."
        name = _site_name(origin)
        if name is None:
            return (
                f"The request comes from a page without a site (Origin: "
                f"{origin[:200]!r}), such as a local file or a sandboxed frame. Open "
                f"the server's own page instead; {cors}"
            )
        return (
            f"Pages of {origin[:200]!r} may not use this server. If a proxy serves the "
            f"server's own page there, start the server with "
            f"--allowed_hosts={name[:200]}; {cors}"
        )

    def _is_allowed_host(self, host: str) -> bool:
        name = _host_name(host)
        if name is None:
            return False
        return "." not in name or _is_address(name) or self._is_allowed(name)

    def _is_allowed(self, name: str) -> bool:
        return any(
            allowed in (ANY, name) or (allowed[:1] == "." and name.endswith(allowed))
            for allowed in [*self._allowed_hosts, ".localhost"]
        )

    def _is_same_site(self, origin: str, host: str) -> bool:
        name = _site_name(origin)
        if name is None:
            return False
        # A proxy may have replaced Host with its own name for the server.
        return urlsplit(origin).netloc.lower() == host.lower() or self._is_allowed(name)


def _site_name(origin: str) -> str | None:
    """Returns the name or address in an Origin header, or None without a site."""
    try:
        site = urlsplit(origin)
        return site.hostname if site.scheme in ("http", "https") else None
    except ValueError:
        return None


def _host_name(host: str) -> str | None:
    """Returns the name or address in a Host header, or None if it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        name, _ = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.netloc != host or "@" in host:
        return None
    # HTTP/1.0 has no Host header, and some clients leave it empty.
    return (name or "").removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _respond(send: Send, status: int, content: dict[str, str]) -> None:
    body = json.dumps(content).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
