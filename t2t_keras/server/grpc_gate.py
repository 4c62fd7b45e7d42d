"""What every call over gRPC passes: token, message, size."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from t2t_keras.server.admission import Admission
from t2t_keras.server.api_token import is_authorized
from t2t_keras.server.offload import SMALL, offload
from t2t_keras.server.protobuf_limits import count_fields
from t2t_keras.server.serving_errors import ServingError, invalid

_HEALTH = "/grpc.health.v1.Health/"
_MOST_WAITING = 1024
_LEAST_FIELDS, _BYTES_PER_FIELD = 10_000, 32


class Gate(grpc.aio.ServerInterceptor):
    """Lets calls in when they carry the token and their message has come.

    A call that sends nothing costs little, but there may be many of them. It does not
    count as a request: it is let go after a time, or earlier when too many others wait
    as well, the one that has waited longest first. A call without the token is refused
    before its message is read, those of the health service apart.

    Messages are parsed away from the event loop, after a look at how many fields they
    have, and what a method answers is written before the call's bytes are let go.

    Args:
        admission: Where the bytes of messages and answers are counted.
        timeout: Seconds that a message may take to come, and an answer to be taken.
        max_bytes: The most bytes of a message.
        token: What has to come as `authorization: Bearer TOKEN`. Default nothing.
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
        self._max_fields = max(_LEAST_FIELDS, max_bytes // _BYTES_PER_FIELD)
        self._token = token
        # In the order in which they have come.
        self._waiting: dict[asyncio.Timeout, None] = {}
        self._refusal = grpc.stream_stream_rpc_method_handler(_refuse)

    async def intercept_service(
        self,
        continuation: Callable[..., Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Returns what handles a call: its method behind the gate, or a refusal."""
        sent = dict(handler_call_details.invocation_metadata)
        is_health = handler_call_details.method.startswith(_HEALTH)
        if self._token and not (
            is_health or is_authorized(sent.get("authorization"), self._token)
        ):
            return self._refusal
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:
            return handler

        async def answer(_: Any, context: grpc.aio.ServicerContext) -> None:
            await self._answer(handler, context)

        # The wire is the same for single messages and for streams, but only a stream's
        # handler is called before its message has come.
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(
                answer, None, handler.response_serializer
            )
        return grpc.stream_stream_rpc_method_handler(answer)

    async def _answer(self, handler: Any, context: grpc.aio.ServicerContext) -> None:
        try:
            content = await self._message(context)
            with self._admission.bytes() as hold:
                size = len(content)
                hold(size)
                request = await offload(size, self._parsed, handler, content)
                del content
                if handler.response_streaming:
                    await handler.unary_stream(request, context)
                    return
                response = await handler.unary_unary(request, context)
                if isinstance(response, Message):
                    # What answers Examples is as large as they are, or less.
                    response = await offload(size, response.SerializeToString)
                hold(len(response))
                writing = asyncio.ensure_future(context.write(response))
                del response
                try:
                    await asyncio.wait([writing], timeout=self._timeout)
                except asyncio.CancelledError:
                    writing.cancel()
                    raise
            # What a client does not take counts no longer, but is kept until the client
            # takes it or leaves: meanwhile gRPC accepts no status in its place.
            await writing
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            code, message = ServingError.of(error).told
            await context.abort(code, message)

    async def _message(self, context: grpc.aio.ServicerContext) -> bytes:
        """Waits for the message of a call.

        Raises:
            ServingError: If it does not come.
        """
        is_evicted = False
        try:
            async with asyncio.timeout(self._timeout) as waiting:
                self._waiting[waiting] = None
                if len(self._waiting) > _MOST_WAITING:
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
                    f"No message came while {_MOST_WAITING:,} other calls waited for "
                    "theirs.",
                ) from None
            raise ServingError(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"No message came within {self._timeout:g} s.",
            ) from None
        if content is grpc.aio.EOF:
            raise invalid("The call ended without a message.")
        return content

    def _parsed(self, handler: Any, content: bytes) -> Any:
        self._admission.check_reading(len(content))
        most = self._max_fields
        if len(content) >= SMALL:
            message = handler.request_deserializer.__self__
            if count_fields(content, message.DESCRIPTOR, most) > most:
                raise invalid(f"A message has at most {most:,} fields.")
        try:
            return handler.request_deserializer(content)
        except DecodeError as error:
            raise invalid(f"The message cannot be parsed: {error}") from None


async def _refuse(_: Any, context: grpc.aio.ServicerContext) -> None:
    await context.abort(grpc.StatusCode.UNAUTHENTICATED, "A valid API token is needed.")
