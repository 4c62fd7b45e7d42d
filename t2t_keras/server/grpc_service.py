"""TensorFlow Serving's gRPC services.

Their methods raise a `ServingError` on failure; `Gate` sends it to the client.
"""

import asyncio

import grpc
import numpy as np
from google.protobuf.message import Message
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    input_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)
from tensorflow_serving.apis.model_pb2 import ModelSpec

from t2t_keras.server.admission import Hold
from t2t_keras.server.example_list import read_examples
from t2t_keras.server.model_registry import Registry
from t2t_keras.server.predictor import Predictor
from t2t_keras.server.saved_model import Arrays, bytes_of
from t2t_keras.server.serving_errors import abbreviated, invalid
from t2t_keras.server.tensor_protos import read_layouts, to_arrays, write_tensor
from t2t_keras.server.tf_examples import CLASSIFY, REGRESS, ExampleInference
from t2t_keras.server.thread_offload import offload

SIGNATURE_DEF = "signature_def"
"""The only metadata field."""


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
    """Predict, Classify, Regress, MultiInference and GetModelMetadata.

    Args:
        predictor: Handles Predict requests.
        inference: Handles requests with Examples.
        timeout: Maximum number of seconds for a request; a shorter deadline counts.
        max_bytes: Maximum size of a request's tensors in bytes.
    """

    def __init__(
        self,
        predictor: Predictor,
        inference: ExampleInference,
        timeout: float,
        max_bytes: int,
    ) -> None:
        self._predictor = predictor
        self._inference = inference
        self._timeout = timeout
        self._max_bytes = max_bytes

    async def Predict(
        self, request: predict_pb2.PredictRequest, context: grpc.aio.ServicerContext
    ) -> bytes:
        """Runs a signature; returns a serialized PredictResponse."""
        with self._predictor.admission.request() as hold:
            tensor_layouts = read_layouts(request.inputs, self._max_bytes).values()
            size = sum(layout.bytes for layout in tensor_layouts)
            hold(size)
            inputs = await offload(size, to_arrays, request.inputs, self._max_bytes)
            outputs, spec = await self._predictor.predict(
                request.model_spec,
                inputs,
                request.output_filter,
                self._remaining_seconds(context),
                "GRPC",
            )
            size = sum(array.nbytes for array in outputs.values())
            hold(await offload(size, bytes_of, outputs))
            return await offload(size, _serialize, spec, outputs)

    async def Classify(
        self,
        request: classification_pb2.ClassificationRequest,
        context: grpc.aio.ServicerContext,
    ) -> Message:
        """Runs a signature that returns classes, scores or both."""
        with self._predictor.admission.request() as hold:
            examples = await self._examples(request.input, hold)
            result, spec = await self._inference.infer(
                request.model_spec,
                CLASSIFY,
                examples,
                self._remaining_seconds(context),
                "GRPC",
            )
            return classification_pb2.ClassificationResponse(
                result=result, model_spec=spec
            )

    async def Regress(
        self,
        request: regression_pb2.RegressionRequest,
        context: grpc.aio.ServicerContext,
    ) -> Message:
        """Runs a signature that returns a value for each Example."""
        with self._predictor.admission.request() as hold:
            examples = await self._examples(request.input, hold)
            result, spec = await self._inference.infer(
                request.model_spec,
                REGRESS,
                examples,
                self._remaining_seconds(context),
                "GRPC",
            )
            return regression_pb2.RegressionResponse(result=result, model_spec=spec)

    async def MultiInference(
        self,
        request: inference_pb2.MultiInferenceRequest,
        context: grpc.aio.ServicerContext,
    ) -> Message:
        """Runs several Classify and Regress signatures of one model."""
        with self._predictor.admission.request() as hold:
            examples = await self._examples(request.input, hold)
            return await self._inference.infer_all(
                list(request.tasks), examples, self._remaining_seconds(context), "GRPC"
            )

    async def _examples(
        self, examples_input: input_pb2.Input, hold: Hold
    ) -> np.ndarray:
        # Always in a thread: computing the size would be as much work.
        examples = await asyncio.to_thread(
            read_examples, examples_input, self._max_bytes
        )
        hold(await offload(examples.nbytes, bytes_of, {"examples": examples}))
        return examples

    def _remaining_seconds(self, context: grpc.aio.ServicerContext) -> float:
        """Returns the seconds left for the response."""
        remaining = context.time_remaining()
        return self._timeout if remaining is None else min(remaining, self._timeout)

    async def GetModelMetadata(
        self,
        request: get_model_metadata_pb2.GetModelMetadataRequest,
        context: grpc.aio.ServicerContext,
    ) -> Message:
        """Describes a model's signatures."""
        unknown = set(request.metadata_field) - {SIGNATURE_DEF}
        if unknown or not request.metadata_field:
            raise invalid(
                f"The metadata field must be {SIGNATURE_DEF}. Received: "
                f"{abbreviated(request.metadata_field)}"
            )
        return metadata(self._predictor.registry, request.model_spec)


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
        """Returns the states of a model's versions."""
        return get_model_status_pb2.GetModelStatusResponse(
            model_version_status=self._registry.statuses(request.model_spec)
        )

    async def HandleReloadConfigRequest(
        self,
        request: model_management_pb2.ReloadConfigRequest,
        context: grpc.aio.ServicerContext,
    ) -> model_management_pb2.ReloadConfigResponse:
        """Replaces the configuration; returns once its models are loaded."""
        # In a thread, since it accesses paths; no thread waits for the loading itself.
        loaded = await asyncio.to_thread(self._registry.reload, request.config)
        await asyncio.wrap_future(loaded)
        return model_management_pb2.ReloadConfigResponse()


def _serialize(spec: ModelSpec, outputs: Arrays) -> bytes:
    response = predict_pb2.PredictResponse(model_spec=spec)
    for name, array in outputs.items():
        write_tensor(response.outputs[name], array)
    return response.SerializeToString()
