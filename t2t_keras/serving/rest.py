"""TensorFlow Serving's REST API, its metrics, and the page to try a model."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import unquote

import grpc
from google.protobuf.json_format import MessageToDict, MessageToJson
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2
from tensorflow_serving.apis.model_pb2 import ModelSpec

from t2t_keras.serving.admission import Hold
from t2t_keras.serving.errors import ServingError, invalid
from t2t_keras.serving.grpc_service import SIGNATURE_DEF, metadata
from t2t_keras.serving.json_answer import answer
from t2t_keras.serving.json_tensors import parse, to_arrays
from t2t_keras.serving.metrics import PATH as METRICS_PATH
from t2t_keras.serving.offload import offload
from t2t_keras.serving.predictor import Predictor
from t2t_keras.serving.saved_model import Arrays, bytes_of
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


class RestApi:
    """Answers HTTP requests.

    Args:
        predictor: Answers predictions.
        timeout: Seconds that a request may take, from its first byte to its answer.
        max_bytes: The most bytes of a request's body.
        max_answer_bytes: The most bytes of an answer.
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
        max_answer_bytes: int,
        token: str | None = None,
        metrics_path: str | None = METRICS_PATH,
    ) -> None:
        self._predictor = predictor
        self._registry = predictor.registry
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._max_answer_bytes = max_answer_bytes
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
        ends = asyncio.get_running_loop().time() + self._timeout
        admission = self._predictor.admission
        with admission.bytes() as hold:
            content = await self._within(ends, self._body(request, hold))
            with admission.request() as hold:
                return await self._answer(request, spec, content, ends, hold)

    async def _within(self, ends: float, result: Awaitable[Result]) -> Result:
        try:
            async with asyncio.timeout_at(ends):
                return await result
        except TimeoutError:
            raise ServingError(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"The request did not come, and was not read, within "
                f"{self._timeout:g} s.",
            ) from None

    async def _answer(
        self,
        request: Request,
        spec: ModelSpec,
        content: bytes,
        ends: float,
        hold: Hold,
    ) -> Response:
        # All at once: what is read of a body takes many times its size, and would wait
        # for other bodies.
        reading = offload(len(content), self._read, content, spec)
        inputs, is_row = await self._within(ends, reading)
        hold(await offload(len(content), bytes_of, inputs))
        left = ends - asyncio.get_running_loop().time()
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
        hold(size)
        text = await offload(size, answer, outputs, is_row, self._max_answer_bytes)
        return Response(text, media_type="application/json")

    def _read(self, content: bytes, spec: ModelSpec) -> tuple[Arrays, bool]:
        """Returns the inputs in a body, and whether rows are wanted.

        Args:
            content: The body.
            spec: The model; it gets the signature's name.
        """
        body = parse(content)
        spec.signature_name = body.signature_name
        version, model = self._registry.acquire(spec)
        try:
            signature = model.signature(spec.signature_name)
            is_batchable = model.is_batchable(spec.signature_name)
            most = self._predictor.max_rows if is_batchable else None
            return to_arrays(body, signature, most), body.is_row
        finally:
            version.release()

    async def _body(self, request: Request, hold: Hold) -> bytes:
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self._max_bytes:
                raise _TooLarge(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"A request has at most {self._max_bytes:,} bytes.",
                )
            hold(len(part))
            parts.append(part)
        return b"".join(parts)


class _TooLarge(ServingError):
    """A body that HTTP has a status of its own for."""


async def _has_left(request: Request) -> None:
    """Ends when the client has gone away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
