"""Connections of the HTTP server: limits on their number and on TLS handshakes."""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol

_HANDSHAKE_SECONDS, _SHUTDOWN_SECONDS = 10, 5


class Connections:
    """All connections; above the limit, the connection idle for longest is closed.

    Args:
        maximum: Maximum number of connections.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._open: set[Connection] = set()
        # Ordered by the time at which they became idle.
        self._idle: dict[Connection, None] = {}

    def add(self, connection: "Connection") -> None:
        """Adds a connection, and closes another one if there are too many."""
        self._open.add(connection)
        self.mark_idle(connection)
        if len(self._open) > self._maximum:
            longest = next(iter(self._idle))
            self.remove(longest)
            longest.abort()

    def mark_idle(self, connection: "Connection") -> None:
        """Marks a connection as idle."""
        self.mark_busy(connection)
        if connection in self._open:
            self._idle[connection] = None

    def mark_busy(self, connection: "Connection") -> None:
        """Marks a connection as busy."""
        self._idle.pop(connection, None)

    def remove(self, connection: "Connection") -> None:
        """Removes a connection that is closed."""
        self.mark_busy(connection)
        self._open.discard(connection)


class Connection:
    """A connection from accept to close, including the TLS handshake.

    It is idle unless a fully received request is being processed.

    Args:
        connections: All connections of the server.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._transport: asyncio.Transport | None = None

    def open(self, transport: asyncio.Transport) -> None:
        """Opens the connection, unless the TLS layer has already opened it."""
        if self._transport is None:
            self._transport = transport
            self._connections.add(self)

    def mark_idle(self) -> None:
        """Marks the connection as idle."""
        self._connections.mark_idle(self)

    def mark_busy(self) -> None:
        """Marks the connection as busy."""
        self._connections.mark_busy(self)

    def close(self) -> None:
        """Removes the connection from the open connections."""
        self._connections.remove(self)

    def abort(self) -> None:
        """Closes the connection immediately and drops unsent data."""
        if self._transport:
            self._transport.abort()


class TlsProtocol(SSLProtocol):
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
