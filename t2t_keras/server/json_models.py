"""Status and signatures of models as JSON, in TensorFlow Serving's format."""

from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2
from tensorflow_serving.apis.model_pb2 import ModelSpec

from t2t_keras.server.grpc_service import SIGNATURE_DEF, metadata
from t2t_keras.server.model_registry import Registry


def model_status(registry: Registry, spec: ModelSpec) -> dict[str, Any]:
    """Returns the states of a model's versions.

    Raises:
        ServingError: If there is no such model or version.
    """
    return _as_dict(
        get_model_status_pb2.GetModelStatusResponse(
            model_version_status=registry.statuses(spec)
        )
    )


def model_metadata(registry: Registry, spec: ModelSpec) -> dict[str, Any]:
    """Returns a model's signatures.

    Raises:
        ServingError: If there is no such model or version.
    """
    response = metadata(registry, spec)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata[SIGNATURE_DEF].Unpack(signatures)
    return {
        "model_spec": _as_dict(response.model_spec),
        "metadata": {SIGNATURE_DEF: _as_dict(signatures)},
    }


def _as_dict(message: Message) -> dict[str, Any]:
    return MessageToDict(
        message,
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
    )
