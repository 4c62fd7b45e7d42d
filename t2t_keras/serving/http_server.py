"""The HTTP server below the REST API: sockets, connections, TLS."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator, MutableMapping
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

_HEADER_SECONDS = 10


def listen(host: str, port: int) -> socket.socket | None:
    """Binds a port.

    Args:
        host: Address to listen on.
        port: The port; 0 for none.

    Returns:
        The socket, or None without a port.

    Raises:
        ValueError: If the port cannot be bound.
    """
    if not port:
        return None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named. Without it, the body
    # of an answer waits 40 ms for the client to acknowledge the head.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise ValueError(f"{host}:{port} cannot be listened on: {error}") from error
    return listening


class HttpServer(uvicorn.Server):
    """Serves an application, and leaves signals to whoever runs it.

    Args:
        app: What answers requests.
        grace: Seconds that requests have to end in when the server does.
        tls_certificate: PEM file of the certificate chain. Default no TLS.
        tls_key: PEM file of its key.
        tls_client_ca: PEM file of the authority that must have signed clients'
            certificates. Default none is demanded.
    """

    def __init__(
        self,
        app: ASGIApp,
        grace: float,
        tls_certificate: str | None = None,
        tls_key: str | None = None,
        tls_client_ca: str | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                self._closing(app),
                http=_HttpProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=max(1, round(grace)),
                ssl_certfile=tls_certificate,
                ssl_keyfile=tls_key,
                ssl_ca_certs=tls_client_ca,
                ssl_cert_reqs=ssl.CERT_REQUIRED if tls_client_ca else ssl.CERT_NONE,
            )
        )

    def _closing(self, app: ASGIApp) -> ASGIApp:
        """Has the last answer on a connection say that it is the last."""

        async def closing(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_last(message: MutableMapping[str, Any]) -> None:
                if self.should_exit and message["type"] == "http.response.start":
                    headers = message.get("headers", ())
                    message["headers"] = [*headers, (b"connection", b"close")]
                await send(message)

            await app(scope, receive, send_last)

        return closing

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Does nothing, where uvicorn would install handlers of its own."""
        yield


class _HttpProtocol(H11Protocol):
    """Closes connections on which a request does not come, or not to its body.

    A client that has sent its requests and closes its side alone is still answered. It
    cannot be told from one that has closed both, until something is sent to it.
    """

    _late: asyncio.TimerHandle | None = None
    _is_half_closed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(_HEADER_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        is_half = self.cycle is before and (not before or before.response_complete)
        if not is_half:
            self._in_time()
        elif not self._late:
            self._late = self.loop.call_later(_HEADER_SECONDS, self.transport.close)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Tells whether to keep the other side open, which TLS does not allow."""
        cycle = self.cycle
        is_waiting = cycle and not cycle.response_complete and not cycle.more_body
        self._is_half_closed = bool(is_waiting) and self.scheme != "https"
        return self._is_half_closed

    def on_response_complete(self) -> None:
        super().on_response_complete()  # It may begin the next request.
        if self._is_half_closed and self.cycle.response_complete:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)

    def _in_time(self) -> None:
        if self._late:
            self._late.cancel()
            self._late = None
