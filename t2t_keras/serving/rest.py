"""TensorFlow Serving's REST API, its metrics, and the page to try a model."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import unquote

import grpc
from google.protobuf.json_format import MessageToDict, MessageToJson
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2
from tensorflow_serving.apis.model_pb2 import ModelSpec

from t2t_keras.serving import json_tensors
from t2t_keras.serving.errors import ServingError, invalid
from t2t_keras.serving.grpc_service import SIGNATURE_DEF, metadata
from t2t_keras.serving.metrics import PATH as METRICS_PATH
from t2t_keras.serving.predictor import Predictor
from t2t_keras.serving.token import is_authorized
from t2t_keras.serving.translate_page import about, translate_page

HTTP_STATUS = {
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
"""Of each status; 500 for all others."""

Result = TypeVar("Result")

_MODEL = re.compile(
    r"/v1/models/(?P<name>[^/:]+)"
    r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
    r"(?:/(?P<metadata>metadata)|/(?P<about>about)|:(?P<verb>predict|classify|regress))?"
)
_LARGE = 1 << 16
"""Bytes of a body that is worth a thread, so that others need not wait for it."""


class RestApi:
    """Answers HTTP requests.

    Args:
        predictor: Answers predictions.
        timeout: Seconds that a request may take, from its first byte to its answer.
        max_bytes: The most bytes of a request's body.
        token: What requests have to carry as `Authorization: Bearer TOKEN`, the page
            apart; None for nothing.
        metrics_path: Where metrics are; None for nowhere. Default where TensorFlow
            Serving has them.
    """

    def __init__(
        self,
        predictor: Predictor,
        timeout: float,
        max_bytes: int,
        token: str | None = None,
        metrics_path: str | None = METRICS_PATH,
    ) -> None:
        self._predictor = predictor
        self._registry = predictor.registry
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._token = token
        self._metrics_path = metrics_path
        html, headers = translate_page(predictor.max_rows, max_bytes)
        self._page_response = Response(html, headers=headers, media_type="text/html")

    def app(self) -> Starlette:
        """Returns the ASGI application."""
        return Starlette(
            routes=[
                *(
                    Route(path, self._guarded(self._metrics), methods=["GET"])
                    for path in [self._metrics_path]
                    if path
                ),
                Route("/", self._page, methods=["GET"]),
                Route("/v1/models", self._guarded(self._models), methods=["GET"]),
                Route(
                    "/{path:path}",
                    self._guarded(self._model),
                    methods=["GET", "POST", "PUT", "DELETE", "PATCH"],
                ),
            ]
        )

    def _guarded(
        self, handler: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            try:
                header = request.headers.get("authorization")
                if self._token and not is_authorized(header, self._token):
                    raise ServingError(
                        grpc.StatusCode.UNAUTHENTICATED, "A valid API token is needed."
                    )
                return await handler(request)
            except _TooLarge as error:
                return JSONResponse({"error": error.message}, 413)
            except ServingError as error:
                status = HTTP_STATUS.get(error.code, 500)
                return JSONResponse({"error": error.message}, status)
            except ClientDisconnect:
                return Response(status_code=499)  # Nobody reads it.
            except Exception as error:
                # One request's failure, whatever it is, is told as all others are.
                message = ServingError.of(error).message
                return JSONResponse({"error": message}, 500)

        return guarded

    async def _page(self, request: Request) -> Response:
        return self._page_response

    async def _metrics(self, request: Request) -> Response:
        text = self._predictor.metrics.text()
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _models(self, request: Request) -> Response:
        """Lists the models, for the page; TensorFlow Serving has no such call."""
        return JSONResponse({"models": self._registry.names})

    async def _model(self, request: Request) -> Response:
        raw = request.scope.get("raw_path", b"").decode("ascii", "replace")
        match = _MODEL.fullmatch(raw)
        verb = match["verb"] if match else None
        if match is None or request.method != ("POST" if verb else "GET"):
            raise invalid(f"Malformed request: {request.method} {raw[:200]}")
        # Only now: an encoded slash belongs to a name, and divides nothing.
        spec = ModelSpec(name=unquote(match["name"]))
        if match["version"]:
            digits = match["version"].lstrip("0") or "0"
            if len(digits) > 19 or int(digits) >= 1 << 63:
                raise invalid(f"No version has the number {digits}.")
            spec.version.value = int(digits)
        if match["label"]:
            spec.version_label = unquote(match["label"])
        if match["metadata"]:
            return self._metadata(spec)
        if match["about"]:
            return await self._about(spec)
        if verb == "predict":
            with self._predictor.admission.request():
                return await self._predict(request, spec)
        if verb:
            raise ServingError(
                grpc.StatusCode.UNIMPLEMENTED, f"Only :predict is served, not :{verb}."
            )
        status = get_model_status_pb2.GetModelStatusResponse(
            model_version_status=self._registry.statuses(spec)
        )
        text = MessageToJson(
            status,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            indent=1,
        )
        return Response(text, media_type="application/json")

    def _metadata(self, spec: ModelSpec) -> Response:
        response = metadata(self._registry, spec)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        response.metadata[SIGNATURE_DEF].Unpack(signatures)
        options = {
            "preserving_proto_field_name": True,
            "always_print_fields_with_no_presence": True,
        }
        return JSONResponse(
            {
                "model_spec": MessageToDict(response.model_spec, **options),
                "metadata": {SIGNATURE_DEF: MessageToDict(signatures, **options)},
            }
        )

    async def _about(self, spec: ModelSpec) -> Response:
        """Tells the page about a version; TensorFlow Serving has no such call."""
        version, _ = self._registry.acquire(spec)
        try:
            return JSONResponse(await asyncio.to_thread(about, version.path))
        finally:
            version.release()

    async def _predict(self, request: Request, spec: ModelSpec) -> Response:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout):
                text = await self._body(request)
        except TimeoutError:
            raise ServingError(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"The request's body did not come within {self._timeout:g} s.",
            ) from None
        body = await _in_thread(len(text), json_tensors.parse, text)
        spec.signature_name = body.signature_name
        version, model = self._registry.acquire(spec)
        try:
            signature = model.signature(body.signature_name)
            inputs = await _in_thread(
                len(text), json_tensors.to_arrays, body, signature
            )
        finally:
            version.release()
        left = self._timeout - (time.monotonic() - started)
        answering = asyncio.ensure_future(
            self._predictor.predict(spec, inputs, (), left, "REST")
        )
        leaving = asyncio.ensure_future(_has_left(request))
        try:
            await asyncio.wait(
                [answering, leaving], return_when=asyncio.FIRST_COMPLETED
            )
            if not answering.done():
                raise ClientDisconnect
            outputs, _ = answering.result()
        finally:
            answering.cancel()
            leaving.cancel()
        size = sum(array.nbytes for array in outputs.values())
        answer = await _in_thread(size, json_tensors.answer, outputs, body.is_row)
        return Response(answer, media_type="application/json")

    async def _body(self, request: Request) -> bytes:
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self._max_bytes:
                raise _TooLarge(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"A request has at most {self._max_bytes:,} bytes.",
                )
            parts.append(part)
        return b"".join(parts)


class _TooLarge(ServingError):
    """A body that HTTP has a status of its own for."""


async def _has_left(request: Request) -> None:
    """Ends when the client has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _in_thread(
    size: int, function: Callable[..., Result], *arguments: Any
) -> Result:
    if size < _LARGE:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)
