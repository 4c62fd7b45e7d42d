"""The HTTP server of the REST API: sockets, connections, TLS."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator, MutableMapping
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from t2t_keras.errors import UserError
from t2t_keras.server.body_drain import drain_before_error
from t2t_keras.server.http_connections import Connection, Connections, TlsProtocol
from t2t_keras.server.http_protocol import HttpProtocol


def listen(host: str, port: int) -> socket.socket | None:
    """Binds a port.

    Args:
        host: Address to listen on.
        port: Port number; 0 for none.

    Returns:
        The bound socket, or None without a port.

    Raises:
        UserError: If the port is not available.
    """
    if not port:
        return None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the socket names its protocol. Without it, the
    # body of a response waits 40 ms for the client to acknowledge the head.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise UserError(f"Cannot listen on {host}:{port}: {error}") from error
    return listening


class HttpServer(uvicorn.Server):
    """Serves an ASGI application; signal handling is left to the caller.

    Args:
        app: ASGI application.
        grace: Seconds that requests have to finish during shutdown.
        max_connections: Maximum number of connections; above it, the connection
            idle for longest is closed.
        tls_certificate: PEM file of the certificate chain. Default no TLS.
        tls_key: PEM file of the private key.
        tls_client_ca: PEM file of the authority that must have signed client
            certificates. Default no client certificates.
    """

    def __init__(
        self,
        app: ASGIApp,
        grace: float,
        max_connections: int,
        tls_certificate: str | None = None,
        tls_key: str | None = None,
        tls_client_ca: str | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                self._closing(drain_before_error(app)),
                http=HttpProtocol,
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

        self._connections = Connections(max_connections)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to listen; connections are counted as soon as they are accepted."""
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.BaseProtocol:
            connection = Connection(self._connections)
            http = HttpProtocol(
                connection,
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )
            context = self.config.ssl
            return TlsProtocol(loop, http, context, connection) if context else http

        self.servers = [
            await loop.create_server(protocol, sock=each, backlog=self.config.backlog)
            for each in sockets or []
        ]
        self.started = True

    def _closing(self, app: ASGIApp) -> ASGIApp:
        """Adds `Connection: close` to responses during shutdown."""

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
        """Does nothing; uvicorn would install its own signal handlers."""
        yield
