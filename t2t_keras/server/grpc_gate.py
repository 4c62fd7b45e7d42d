"""Interceptor of all gRPC calls: checks the token, the message and its size."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from t2t_keras.server.admission import Admission
from t2t_keras.server.api_token import is_authorized
from t2t_keras.server.protobuf_limits import count_fields
from t2t_keras.server.serving_errors import ServingError, invalid
from t2t_keras.server.thread_offload import SMALL, offload

_HEALTH = "/grpc.health.v1.Health/"
_MAX_WAITING = 1024
_MIN_FIELDS, _BYTES_PER_FIELD = 10_000, 32


class Gate(grpc.aio.ServerInterceptor):
    """Admits calls that carry the token and whose message has arrived.

    A call that sends nothing costs little, but there may be many of them. Such a call
    does not count as a request. It is ended after the timeout, or earlier if too many
    calls are waiting; then the longest waiting one ends first. A call without the token
    is rejected before its message is read, except to the health service.

    Messages are parsed outside the event loop, after their fields were counted. The
    bytes of a call are held until its response is written.

    Args:
        admission: Counts the bytes of messages and responses.
        timeout: Seconds until a message must arrive, and until a response must be read.
        max_bytes: Maximum size of a message in bytes.
        token: Token that calls must send as `authorization: Bearer TOKEN`. Default
            none.
    """

    def __init__(
        self,
        admission: Admission,
        timeout: float,
        max_bytes: int,
        token: str | None = None,
    ) -> None:
        self._admission = admission
        self._timeout = timeout
        self._max_fields = max(_MIN_FIELDS, max_bytes // _BYTES_PER_FIELD)
        self._token = token
        # In order of arrival.
        self._waiting: dict[asyncio.Timeout, None] = {}
        self._rejection = grpc.stream_stream_rpc_method_handler(_reject)

    async def intercept_service(
        self,
        continuation: Callable[..., Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Returns the handler of a call: its method behind the gate, or a rejection."""
        metadata = dict(handler_call_details.invocation_metadata)
        is_health = handler_call_details.method.startswith(_HEALTH)
        if self._token and not (
            is_health or is_authorized(metadata.get("authorization"), self._token)
        ):
            return self._rejection
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return handler

        async def handle(_: Any, context: grpc.aio.ServicerContext) -> None:
            await self._handle(handler, context)

        # The wire format is the same for single messages and for streams, but only a
        # stream's handler is called before the message has arrived.
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(
                handle, None, handler.response_serializer
            )
        return grpc.stream_stream_rpc_method_handler(handle)

    async def _handle(self, handler: Any, context: grpc.aio.ServicerContext) -> None:
        try:
            content = await self._read_message(context)
            with self._admission.bytes() as hold:
                size = len(content)
                hold(size)
                request = await offload(size, self._parse, handler, content)
                del content
                if handler.response_streaming:
                    await handler.unary_stream(request, context)
                    return
                response = await handler.unary_unary(request, context)
                if isinstance(response, Message):
                    # The response to Examples is no larger than they are.
                    response = await offload(size, response.SerializeToString)
                hold(len(response))
                writing = asyncio.ensure_future(context.write(response))
                del response
                try:
                    await asyncio.wait([writing], timeout=self._timeout)
                except asyncio.CancelledError:
                    writing.cancel()
                    raise
            # A response that the client does not read no longer counts, but is kept
            # until the client reads it or leaves: gRPC accepts no status in its place.
            await writing
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            code, message = ServingError.of(error).details
            await context.abort(code, message)

    async def _read_message(self, context: grpc.aio.ServicerContext) -> bytes:
        """Waits for the message of a call.

        Raises:
            ServingError: If it does not arrive.
        """
        is_evicted = False
        try:
            async with asyncio.timeout(self._timeout) as waiting:
                self._waiting[waiting] = None
                if len(self._waiting) > _MAX_WAITING:
                    longest = next(iter(self._waiting))
                    del self._waiting[longest]
                    longest.reschedule(0)
                try:
                    content = await context.read()
                finally:
                    is_evicted = self._waiting.pop(waiting, waiting) is waiting
        except TimeoutError:
            if is_evicted:
                raise ServingError(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"No message arrived while {_MAX_WAITING:,} other calls were "
                    "waiting for theirs.",
                ) from None
            raise ServingError(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"No message arrived within {self._timeout:g} s.",
            ) from None
        if content is grpc.aio.EOF:
            raise invalid("The call ended without a message.")
        return content

    def _parse(self, handler: Any, content: bytes) -> Any:
        self._admission.check_parsing(len(content))
        limit = self._max_fields
        if len(content) >= SMALL:
            message = handler.request_deserializer.__self__
            if count_fields(content, message.DESCRIPTOR, limit) > limit:
                raise invalid(f"A message may have at most {limit:,} fields.")
        try:
            return handler.request_deserializer(content)
        except DecodeError as error:
            raise invalid(f"The message cannot be parsed: {error}") from None


async def _reject(_: Any, context: grpc.aio.ServicerContext) -> None:
    await context.abort(
        grpc.StatusCode.UNAUTHENTICATED, "A valid API token is required."
    )
