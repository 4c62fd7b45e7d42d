"""The connections of an HTTP server: so many at once, and each handshake in time."""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol

_HANDSHAKE_SECONDS, _SHUTDOWN_SECONDS = 10, 5


class Connections:
    """All connections, of which the one that has been idle longest makes room.

    Args:
        most: How many there may be.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[Connection] = set()
        # In the order in which they became idle.
        self._idle: dict[Connection, None] = {}

    def open(self, connection: "Connection") -> None:
        """Takes a connection, and ends another one if there are too many."""
        self._open.add(connection)
        self.rest(connection)
        if len(self._open) > self._most:
            longest = next(iter(self._idle))
            self.close(longest)
            longest.abort()

    def rest(self, connection: "Connection") -> None:
        """Notes that a connection is idle from now on."""
        self.work(connection)
        if connection in self._open:
            self._idle[connection] = None

    def work(self, connection: "Connection") -> None:
        """Notes that a connection is not idle."""
        self._idle.pop(connection, None)

    def close(self, connection: "Connection") -> None:
        """Forgets a connection."""
        self.work(connection)
        self._open.discard(connection)


class Connection:
    """A connection from its first byte to its last, a handshake of TLS included.

    It is idle unless a request has come whole and is being answered.

    Args:
        connections: Where it is counted.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._transport: asyncio.Transport | None = None

    def open(self, transport: asyncio.Transport) -> None:
        """Begins, unless it has begun already: below TLS, with the handshake."""
        if self._transport is None:
            self._transport = transport
            self._connections.open(self)

    def rest(self) -> None:
        """Is idle from now on."""
        self._connections.rest(self)

    def work(self) -> None:
        """Has a request that is being answered."""
        self._connections.work(self)

    def close(self) -> None:
        """Ends."""
        self._connections.close(self)

    def abort(self) -> None:
        """Ends at once, whatever has not been sent."""
        if self._transport:
            self._transport.abort()


class Tls(SSLProtocol):
    """TLS between a connection and a protocol. Its handshake has to end in time.

    Args:
        loop: The event loop.
        protocol: What is given to the other side of the encryption.
        context: Keys and certificates.
        connection: What is counted.
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
        """Begins the handshake."""
        self._connection.open(transport)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Ends, whether there was a handshake or not."""
        self._connection.close()
        super().connection_lost(exc)
