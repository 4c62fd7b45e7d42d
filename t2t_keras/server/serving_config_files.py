"""TensorFlow Serving's text configuration files other than the model configuration.

tensorflow-serving-api does not contain their messages. They are declared here as in
tensorflow/serving: tensorflow_serving/servables/tensorflow/session_bundle_config.proto,
tensorflow_serving/config/monitoring_config.proto and ssl_config.proto.
"""

from pathlib import Path
from typing import Any, TypeVar

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)
from google.protobuf.message import Message

from t2t_keras.errors import UserError
from t2t_keras.server.prometheus import PATH as METRICS_PATH
from t2t_keras.server.tls import ServerTls

_MESSAGES = {
    "BatchingParameters": {
        "max_batch_size": (1, ".google.protobuf.Int64Value"),
        "batch_timeout_micros": (2, ".google.protobuf.Int64Value"),
        "max_enqueued_batches": (3, ".google.protobuf.Int64Value"),
        "num_batch_threads": (4, ".google.protobuf.Int64Value"),
        "thread_pool_name": (5, ".google.protobuf.StringValue"),
        "allowed_batch_sizes": (6, "repeated int64"),
        "pad_variable_length_inputs": (7, "bool"),
        "enable_large_batch_splitting": (8, ".google.protobuf.BoolValue"),
        "max_execution_batch_size": (9, ".google.protobuf.Int64Value"),
    },
    "PrometheusConfig": {"enable": (1, "bool"), "path": (2, "string")},
    "MonitoringConfig": {
        "prometheus_config": (1, ".tensorflow.serving.PrometheusConfig")
    },
    "SSLConfig": {
        "server_key": (1, "string"),
        "server_cert": (2, "string"),
        "custom_ca": (3, "string"),
        "client_verify": (4, "bool"),
    },
}

_MIN_VALUES = {
    "max_batch_size": 1,
    "batch_timeout_micros": 0,
    "max_enqueued_batches": 1,
    "num_batch_threads": 1,
}
"""Minimum values of the supported batching parameters."""

AnyMessage = TypeVar("AnyMessage", bound=Message)


def _message_classes() -> dict[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(
        name="t2t_keras/operator_config.proto",
        package="tensorflow.serving",
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in _MESSAGES.items():
        descriptor = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            field = descriptor.field.add(name=name, number=number)
            is_repeated = kind.startswith("repeated ")
            kind = kind.removeprefix("repeated ")
            field.label = kinds.LABEL_REPEATED if is_repeated else kinds.LABEL_OPTIONAL
            if kind.startswith("."):
                field.type, field.type_name = kinds.TYPE_MESSAGE, kind
            else:
                field.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
    # A separate pool: a later tensorflow-serving-api may define these messages.
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"tensorflow.serving.{name}")
        )
        for name in _MESSAGES
    }


MESSAGES = _message_classes()
"""Message classes by name."""


def read_text_message(
    path: str | Path, message: AnyMessage, is_secret: bool = False
) -> AnyMessage:
    """Reads a message from a text file.

    Args:
        path: Path of the file.
        message: Empty message of the expected type.
        is_secret: Whether errors must not quote the file. Default False.

    Returns:
        The message.

    Raises:
        UserError: If the file cannot be read or parsed.
    """
    try:
        return text_format.Parse(Path(path).read_text(encoding="utf-8"), message)
    except text_format.ParseError as error:
        where = f"line {error.GetLine()}, column {error.GetColumn()}"
        raise UserError(
            f"{path} is not a valid {message.DESCRIPTOR.name}: "
            f"{where if is_secret else error}"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None


def read_batching(path: str | Path) -> tuple[dict[str, int], list[str]]:
    """Reads a file of BatchingParameters.

    Returns:
        Arguments of `Batcher`, and the names of unsupported fields.

    Raises:
        UserError: If the file cannot be read or a value is out of range.
    """
    message: Any = read_text_message(path, MESSAGES["BatchingParameters"]())
    arguments, ignored = {}, []
    for field, value in message.ListFields():
        if field.name not in _MIN_VALUES:
            ignored.append(field.name)
        elif value.value < _MIN_VALUES[field.name]:
            raise UserError(
                f"{path}: {field.name} must be at least {_MIN_VALUES[field.name]}. "
                f"Received: {value.value}"
            )
        else:
            arguments[field.name] = value.value
    return arguments, ignored


def read_metrics_path(path: str | Path) -> str | None:
    """Reads a file of MonitoringConfig.

    Returns:
        Path of the metrics over REST, or None if they are disabled.

    Raises:
        UserError: If the file cannot be read or the path is invalid.
    """
    message: Any = read_text_message(path, MESSAGES["MonitoringConfig"]())
    config = message.prometheus_config
    if config.path and not config.path.startswith("/"):
        raise UserError(
            f"{path}: the path of prometheus_config must start with a slash. Received: "
            f"{config.path!r}"
        )
    return (config.path or METRICS_PATH) if config.enable else None


def read_ssl(path: str | Path) -> ServerTls:
    """Reads a file of SSLConfig.

    Raises:
        UserError: If the file cannot be read or lacks a required field.
    """
    message: Any = read_text_message(path, MESSAGES["SSLConfig"](), is_secret=True)
    if not message.server_cert or not message.server_key:
        raise UserError(f"{path}: server_cert and server_key are both required.")
    if message.client_verify and not message.custom_ca:
        raise UserError(f"{path}: client_verify requires custom_ca.")
    try:
        return ServerTls(
            message.server_cert.encode(),
            message.server_key.encode(),
            message.custom_ca.encode() if message.client_verify else None,
        )
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
