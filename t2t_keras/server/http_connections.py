"""Connections of the HTTP server: limits on their number and on TLS handshakes."""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol

_HANDSHAKE_SECONDS, _SHUTDOWN_SECONDS = 10, 5


class Connections:
    """All connections; beyond the limit, the longest idle one is closed.

    Args:
        maximum: Maximum number of connections.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._open: set[Connection] = set()
        # In the order in which they became idle.
        self._idle: dict[Connection, None] = {}

    def open(self, connection: "Connection") -> None:
        """Adds a connection, and closes another one if there are too many."""
        self._open.add(connection)
        self.rest(connection)
        if len(self._open) > self._maximum:
            longest = next(iter(self._idle))
            self.close(longest)
            longest.abort()

    def rest(self, connection: "Connection") -> None:
        """Marks a connection as idle."""
        self.work(connection)
        if connection in self._open:
            self._idle[connection] = None

    def work(self, connection: "Connection") -> None:
        """Marks a connection as busy."""
        self._idle.pop(connection, None)

    def close(self, connection: "Connection") -> None:
        """Forgets a connection."""
        self.work(connection)
        self._open.discard(connection)


class Connection:
    """A connection from accept to close, including the TLS handshake.

    It is idle unless a fully received request is being answered.

    Args:
        connections: All connections of the server.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._transport: asyncio.Transport | None = None

    def open(self, transport: asyncio.Transport) -> None:
        """Opens the connection, unless the TLS handshake has opened it."""
        if self._transport is None:
            self._transport = transport
            self._connections.open(self)

    def rest(self) -> None:
        """Marks the connection as idle."""
        self._connections.rest(self)

    def work(self) -> None:
        """Marks the connection as busy."""
        self._connections.work(self)

    def close(self) -> None:
        """Removes the connection from the open ones."""
        self._connections.close(self)

    def abort(self) -> None:
        """Closes the connection immediately and drops unsent data."""
        if self._transport:
            self._transport.abort()


class Tls(SSLProtocol):
    """TLS layer between a connection and a protocol, with a handshake timeout.

    Args:
        loop: The event loop.
        protocol: Protocol that receives the decrypted data.
        context: Keys and certificates.
        connection: The counted connection.
    """

    # Each connection has a buffer of this size; the default is 256 KiB.
    max_size = 1 << 15

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: asyncio.Protocol,
        context: ssl.SSLContext,
        connection: Connection,
    ) -> None:
        super().__init__(
            loop,
            protocol,
            context,
            waiter=None,  # type: ignore[arg-type]
            server_side=True,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
        )
        self._connection = connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the handshake."""
        self._connection.open(transport)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Closes the connection, with or without a completed handshake."""
        self._connection.close()
        super().connection_lost(exc)
