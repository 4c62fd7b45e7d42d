"""TensorFlow Serving's REST API, the metrics and the translation page."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc
import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tensorflow_serving.apis.model_pb2 import ModelSpec

from t2t_keras.server.admission import Hold
from t2t_keras.server.api_token import is_authorized
from t2t_keras.server.client_disconnect import while_connected
from t2t_keras.server.example_list import read_examples
from t2t_keras.server.held_response import HeldResponse
from t2t_keras.server.json_body import parse
from t2t_keras.server.json_examples import parse_examples, results_to_json
from t2t_keras.server.json_models import model_metadata, model_status
from t2t_keras.server.json_response import to_json
from t2t_keras.server.json_tensors import to_arrays
from t2t_keras.server.predictor import Predictor
from t2t_keras.server.prometheus import PATH as METRICS_PATH
from t2t_keras.server.rest_paths import VERBS, ModelPath
from t2t_keras.server.saved_model import Arrays, bytes_of
from t2t_keras.server.serving_errors import ServingError, invalid
from t2t_keras.server.tf_examples import CLASSIFY, REGRESS, ExampleInference
from t2t_keras.server.thread_offload import offload
from t2t_keras.server.translate_page import about, translate_page

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
"""HTTP status of each gRPC status; 500 for all others."""

Result = TypeVar("Result")

_METHODS = {"classify": CLASSIFY, "regress": REGRESS}


class RestApi:
    """Handles HTTP requests.

    Args:
        predictor: Handles predict requests.
        inference: Handles classify and regress requests.
        timeout: Timeout of a request in seconds, from its first byte to the response.
        max_bytes: Maximum size of a request's body in bytes.
        max_response_bytes: Maximum size of a response in bytes.
        token: Token that all requests, except for the page itself, must send as
            `Authorization: Bearer TOKEN`; None for none.
        metrics_path: Path of the metrics; None to disable them. Default TensorFlow
            Serving's path.
    """

    def __init__(
        self,
        predictor: Predictor,
        inference: ExampleInference,
        timeout: float,
        max_bytes: int,
        max_response_bytes: int,
        token: str | None = None,
        metrics_path: str | None = METRICS_PATH,
    ) -> None:
        self._predictor = predictor
        self._inference = inference
        self._registry = predictor.registry
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._max_response_bytes = max_response_bytes
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
                Route(
                    "/{path:path}",
                    self._guarded(self._model),
                    methods=["GET", "POST", "PUT", "DELETE", "PATCH"],
                ),
            ],
            exception_handlers={HTTPException: _not_allowed},
        )

    def _guarded(
        self, handler: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            try:
                header = request.headers.get("authorization")
                if self._token and not is_authorized(header, self._token):
                    raise ServingError(
                        grpc.StatusCode.UNAUTHENTICATED,
                        "A valid API token is required.",
                    )
                return await handler(request)
            except _TooLarge as error:
                return JSONResponse({"error": error.message}, 413)
            except ServingError as error:
                status = HTTP_STATUS.get(error.code, 500)
                return JSONResponse({"error": error.message}, status)
            except ClientDisconnect:
                return Response(status_code=499)  # The client has left.
            except Exception as error:
                # Unexpected errors are reported like all others.
                message = ServingError.of(error).message
                return JSONResponse({"error": message}, 500)

        return guarded

    async def _page(self, request: Request) -> Response:
        return self._page_response

    async def _metrics(self, request: Request) -> Response:
        text = self._predictor.metrics.text()
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _model(self, request: Request) -> Response:
        raw = _raw_path(request)
        path = ModelPath.parse(raw)
        if (
            path is None
            or request.method != path.method
            or path.verb not in (None, *VERBS)
        ):
            raise invalid(f"Malformed request: {request.method} {raw[:200]}")
        if path.name is None:
            # For the page; TensorFlow Serving has no such endpoint.
            return JSONResponse({"models": self._registry.names})
        spec = path.model_spec()
        if path.part == "metadata":
            return JSONResponse(model_metadata(self._registry, spec))
        if path.part == "about":
            return await self._about(spec)
        if path.verb:
            return await self._run(request, spec, path.verb)
        return JSONResponse(model_status(self._registry, spec))

    async def _about(self, spec: ModelSpec) -> Response:
        """Describes a version for the page; TensorFlow Serving has no such endpoint."""
        version, _ = self._registry.acquire(spec)
        try:
            return JSONResponse(await asyncio.to_thread(about, version.path))
        finally:
            version.release()

    async def _run(self, request: Request, spec: ModelSpec, verb: str) -> Response:
        deadline = asyncio.get_running_loop().time() + self._timeout
        admission = self._predictor.admission
        with contextlib.ExitStack() as held:
            hold = held.enter_context(admission.bytes())
            content = await self._within(deadline, self._body(request, hold))
            handler = self._predict if verb == "predict" else self._infer
            with admission.request() as hold_more:
                response = handler(spec, verb, content, deadline, hold_more)
                text = await while_connected(request, response)
            hold(len(text))
            return HeldResponse(text, held.pop_all())

    async def _within(self, deadline: float, result: Awaitable[Result]) -> Result:
        try:
            async with asyncio.timeout_at(deadline):
                return await result
        except TimeoutError:
            raise ServingError(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                f"The request did not arrive or was not parsed within "
                f"{self._timeout:g} s.",
            ) from None

    async def _predict(
        self,
        spec: ModelSpec,
        verb: str,
        content: bytearray,
        deadline: float,
        hold: Hold,
    ) -> bytes:
        # One step from parsing to arrays: a parsed body takes many times its size and
        # would otherwise wait for other bodies.
        reading = offload(len(content), self._read, content, spec)
        inputs, is_row = await self._within(deadline, reading)
        hold(await offload(len(content), bytes_of, inputs))
        remaining = deadline - asyncio.get_running_loop().time()
        outputs, _ = await self._predictor.predict(spec, inputs, (), remaining, "REST")
        size = sum(array.nbytes for array in outputs.values())
        hold(size)
        return await offload(size, to_json, outputs, is_row, self._max_response_bytes)

    async def _infer(
        self,
        spec: ModelSpec,
        verb: str,
        content: bytearray,
        deadline: float,
        hold: Hold,
    ) -> bytes:
        reading = offload(len(content), self._read_examples, content, spec)
        examples = await self._within(deadline, reading)
        hold(await offload(len(content), bytes_of, {"examples": examples}))
        remaining = deadline - asyncio.get_running_loop().time()
        result, _ = await self._inference.infer(
            spec, _METHODS[verb], examples, remaining, "REST"
        )
        size = result.ByteSize()
        hold(size)
        return await offload(size, results_to_json, result)

    def _read(self, content: bytearray, spec: ModelSpec) -> tuple[Arrays, bool]:
        """Parses a predict request's body.

        Args:
            content: The body.
            spec: The model; receives the signature's name.

        Returns:
            The inputs, and whether the response is by rows.
        """
        self._predictor.admission.check_parsing(len(content))
        body = parse(content)
        spec.signature_name = body.signature_name
        version, model = self._registry.acquire(spec)
        try:
            signature = model.signature(spec.signature_name)
            is_batchable = model.is_batchable(spec.signature_name)
            max_rows = self._predictor.max_rows if is_batchable else None
            return to_arrays(body, signature, max_rows), body.is_row
        finally:
            version.release()

    def _read_examples(self, content: bytearray, spec: ModelSpec) -> np.ndarray:
        """Returns the Examples in a body; sets the signature's name in the spec."""
        self._predictor.admission.check_parsing(len(content))
        spec.signature_name, examples_input = parse_examples(content)
        return read_examples(examples_input, self._max_bytes)

    async def _body(self, request: Request, hold: Hold) -> bytearray:
        content = bytearray()
        async for part in request.stream():
            if len(content) + len(part) > self._max_bytes:
                raise _TooLarge(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"A request may have at most {self._max_bytes:,} bytes.",
                )
            hold(len(part))
            content += part
        return content


async def _not_allowed(request: Request, error: Exception) -> Response:
    """Rejects an unsupported method and names the one that the path supports."""
    raw = _raw_path(request)
    path = ModelPath.parse(raw)
    allowed = path.method if path else "GET"
    method = request.method[:20]
    message = f"{method} is not allowed for {raw[:200]}; use {allowed}."
    return JSONResponse({"error": message}, 405, headers={"Allow": allowed})


def _raw_path(request: Request) -> str:
    """Returns the path as sent, not decoded."""
    return request.scope.get("raw_path", b"").decode("ascii", "replace")


class _TooLarge(ServingError):
    """A body that is too large; HTTP has a status of its own for it."""
