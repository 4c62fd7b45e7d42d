"""TensorFlow Serving's services over gRPC."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)
from tensorflow_serving.apis.model_pb2 import ModelSpec

from t2t_keras.serving.errors import ServingError, invalid, shown
from t2t_keras.serving.predictor import Predictor
from t2t_keras.serving.registry import Registry
from t2t_keras.serving.tensor_protos import fill, to_arrays
from t2t_keras.serving.token import is_authorized

SIGNATURE_DEF = "signature_def"
"""The one field of metadata that there is."""


def metadata(registry: Registry, spec: ModelSpec) -> Message:
    """Describes a model's signatures.

    Returns:
        A GetModelMetadataResponse.

    Raises:
        ServingError: If there is no such model.
    """
    version, model = registry.acquire(spec)
    try:
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name = spec.name
        response.model_spec.version.value = version.number
        signatures = get_model_metadata_pb2.SignatureDefMap()
        for name, signature in model.signature_defs.items():
            signatures.signature_def[name].CopyFrom(signature)
        response.metadata[SIGNATURE_DEF].Pack(signatures)
    finally:
        version.release()
    return response


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predict and GetModelMetadata.

    Args:
        predictor: Answers requests.
        timeout: Seconds for a request without a deadline, or with a later one.
        max_bytes: The most that the tensors of a request may take.
    """

    def __init__(self, predictor: Predictor, timeout: float, max_bytes: int) -> None:
        self._predictor = predictor
        self._timeout = timeout
        self._max_bytes = max_bytes

    async def Predict(
        self, request: predict_pb2.PredictRequest, context: grpc.aio.ServicerContext
    ) -> predict_pb2.PredictResponse:
        """Runs a signature."""
        with _told(context) as failure, self._predictor.admit():
            left = context.time_remaining()
            outputs, spec = await self._predictor.predict(
                request.model_spec,
                to_arrays(request.inputs, self._max_bytes),
                request.output_filter,
                self._timeout if left is None else min(left, self._timeout),
                "GRPC",
            )
            response = predict_pb2.PredictResponse(model_spec=spec)
            for name, array in outputs.items():
                fill(response.outputs[name], array)
            return response
        await context.abort(*failure)

    async def GetModelMetadata(
        self,
        request: get_model_metadata_pb2.GetModelMetadataRequest,
        context: grpc.aio.ServicerContext,
    ) -> Message:
        """Describes a model's signatures."""
        with _told(context) as failure:
            unknown = set(request.metadata_field) - {SIGNATURE_DEF}
            if unknown or not request.metadata_field:
                raise invalid(
                    f"The metadata field is {SIGNATURE_DEF}. Received: "
                    f"{shown(request.metadata_field)}"
                )
            return metadata(self._predictor.registry, request.model_spec)
        await context.abort(*failure)


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """GetModelStatus and HandleReloadConfigRequest.

    Args:
        registry: The models.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def GetModelStatus(
        self,
        request: get_model_status_pb2.GetModelStatusRequest,
        context: grpc.aio.ServicerContext,
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Tells the states of a model's versions."""
        with _told(context) as failure:
            return get_model_status_pb2.GetModelStatusResponse(
                model_version_status=self._registry.statuses(request.model_spec)
            )
        await context.abort(*failure)

    async def HandleReloadConfigRequest(
        self,
        request: model_management_pb2.ReloadConfigRequest,
        context: grpc.aio.ServicerContext,
    ) -> model_management_pb2.ReloadConfigResponse:
        """Replaces the configuration; answers when it has been loaded."""
        with _told(context) as failure:
            # No thread waits for it: any number of reloads may.
            await asyncio.wrap_future(self._registry.reload(request.config))
            return model_management_pb2.ReloadConfigResponse()
        await context.abort(*failure)


@contextmanager
def _told(context: grpc.aio.ServicerContext) -> Iterator[list[Any]]:
    """Takes a `ServingError` and yields what is to be told to the client instead."""
    failure: list[Any] = []
    try:
        yield failure
    except ServingError as error:
        failure += [error.code, error.message]


class ParsingInterceptor(grpc.aio.ServerInterceptor):
    """Says that a message cannot be parsed, which gRPC calls an unknown error."""

    async def intercept_service(
        self,
        continuation: Callable[..., Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wraps the method that is called."""
        handler = await continuation(handler_call_details)
        if handler is None or not handler.unary_unary:
            return handler

        def parse(content: bytes) -> Any:
            try:
                return handler.request_deserializer(content)
            except DecodeError as error:
                return error

        async def answer(request: Any, context: grpc.aio.ServicerContext) -> Any:
            if isinstance(request, DecodeError):
                message = f"The message cannot be parsed: {request}"
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, message)
            return await handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(
            answer, parse, handler.response_serializer
        )


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses calls without the token, those of the health service apart.

    Args:
        token: What has to come as `authorization: Bearer TOKEN`.
    """

    def __init__(self, token: str) -> None:
        self._token = token

        async def refuse(request: Any, context: grpc.aio.ServicerContext) -> None:
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED, "A valid API token is needed."
            )

        self._refusal = grpc.unary_unary_rpc_method_handler(refuse)

    async def intercept_service(
        self,
        continuation: Callable[..., Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Passes a call on, or refuses it."""
        sent = dict(handler_call_details.invocation_metadata)
        is_health = handler_call_details.method.startswith("/grpc.health.v1.Health/")
        if is_health or is_authorized(sent.get("authorization"), self._token):
            return await continuation(handler_call_details)
        return self._refusal
