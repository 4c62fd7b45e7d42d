"""HTTP on one connection, with timeouts and a limit on chunks."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from t2t_keras.server.http_connections import Connection

_HEAD_SECONDS = 10.0
_STALL_SECONDS = 60.0
_CLOSE_SECONDS = 10.0
_MAX_HEAD_BYTES = 1 << 14
_MAX_SHOWN = 200
_FREE_CHUNKS, _BYTES_PER_CHUNK = 1000, 64


class HttpProtocol(H11Protocol):
    """Closes connections on which a request does not arrive or a response stalls.

    A client that half-closes the connection after its requests still gets its
    responses. It cannot be distinguished from one that has closed both sides until
    something is sent to it. A half-close in the middle of a request is an error.

    Args:
        connection: The connection, which is marked as idle or busy.
        **options: Options of `H11Protocol`.
    """

    def __init__(self, connection: Connection, **options: Any) -> None:
        super().__init__(**options)
        self.conn: _ChunkLimit = _ChunkLimit(h11.SERVER, _MAX_HEAD_BYTES)
        self._connection = connection
        self._request_timer, self._write_timer = _Timer(self.loop), _Timer(self.loop)
        self._is_half_closed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the timeout of the first request."""
        self._connection.open(transport)
        super().connection_made(transport)
        self._request_timer.start(_HEAD_SECONDS, self._close)

    def data_received(self, data: bytes) -> None:
        """Reads received data: part of a request, or several requests."""
        previous_cycle = self.cycle
        super().data_received(data)
        is_incomplete = self.cycle is previous_cycle and (
            not previous_cycle or previous_cycle.response_complete
        )
        if not is_incomplete:
            self._request_timer.stop()
        else:
            self._request_timer.start(_HEAD_SECONDS, self._close)
        self._update_idle()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Returns whether to keep the other side open, which TLS does not allow."""
        self._is_half_closed = self._is_responding() and self.scheme != "https"
        if not self._is_half_closed:
            self._reject_truncated()
        return self._is_half_closed

    def on_response_complete(self) -> None:
        """Waits for the next request or starts it."""
        super().on_response_complete()
        self._update_idle()
        if self._is_half_closed and not self._is_responding():
            self._reject_truncated()
            self._close()

    def send_400_response(self, msg: str) -> None:
        """Rejects malformed HTTP, unless a response has started.

        Args:
            msg: Error message, if the parser has none.
        """
        if not self._may_respond():
            self.transport.abort()
            return
        error = f"Malformed request: {self.conn.problem or msg}"
        content = json.dumps({"error": error}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
        ]
        is_responding = self.cycle and not self.cycle.response_complete
        if is_responding and self.cycle.scope["method"] == "HEAD":
            content = b""  # Content-Length stays.
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=content),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def pause_writing(self) -> None:
        """Starts the timeout for the client to read."""
        super().pause_writing()
        self._write_timer.start(_STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stops the timeout and continues to write."""
        self._write_timer.stop()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Closes a keep-alive connection without a further request."""
        super().timeout_keep_alive_handler()
        self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the timeouts and removes the connection."""
        self._connection.close()
        self._request_timer.stop()
        self._write_timer.stop()
        super().connection_lost(exc)

    def _reject_truncated(self) -> None:
        """Rejects a request that the client has left incomplete."""
        has_part = self.conn.their_state is h11.SEND_BODY or (
            self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        )
        if has_part and self._may_respond():
            self.send_400_response("the connection was closed before its end")

    def _may_respond(self) -> bool:
        """Returns whether the request being read has no response yet."""
        return self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE)

    def _is_responding(self) -> bool:
        cycle = self.cycle
        return bool(cycle and not cycle.response_complete and not cycle.more_body)

    def _update_idle(self) -> None:
        if self._is_responding():
            self._connection.mark_busy()
        else:
            self._connection.mark_idle()

    def _close(self) -> None:
        """Closes the connection, even if the client does not read the rest."""
        self.transport.close()
        self.loop.call_later(_CLOSE_SECONDS, self.transport.abort)


class _ChunkLimit(h11.Connection):
    """Rejects bodies of many small chunks: each takes as long as a thousand bytes.

    Attributes:
        problem: Error in the received data, or None.
    """

    problem: str | None = None
    _chunks = _bytes = 0

    def next_event(self) -> Any:
        try:
            return self._checked(super().next_event())
        except h11.RemoteProtocolError as error:
            # Some messages quote the received data, of any length.
            self.problem = str(error)[:_MAX_SHOWN]
            raise

    def _checked(self, event: Any) -> Any:
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
            if self._chunks > _FREE_CHUNKS + self._bytes // _BYTES_PER_CHUNK:
                raise h11.RemoteProtocolError("too many chunks")
        return event


class _Timer:
    """Calls a function once, unless it is stopped before."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None

    def start(self, seconds: float, action: Callable[[], object]) -> None:
        """Starts the timer, unless it is running."""
        self._handle = self._handle or self._loop.call_later(seconds, action)

    def stop(self) -> None:
        if self._handle:
            self._handle.cancel()
            self._handle = None
