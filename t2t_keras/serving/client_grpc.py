"""Asks a model server for translations over gRPC."""

import json
import ssl
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from t2t_keras.serving.client import MOST_BACKOFF, Client
from t2t_keras.serving.client_answer import INVALID_ANSWER, RequestError

_RETRY_BUFFER_BYTES = 16 << 20
"""A larger request is not sent again; gRPC's own limit is 256 KiB."""


class GrpcClient(Client):
    """Translates by the PredictionService of a model server.

    Args:
        *arguments: Those of `Client`.
        **named: Likewise.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        options = [
            ("grpc.service_config", json.dumps({"methodConfig": [self._method()]})),
            ("grpc.per_rpc_retry_buffer_size", _RETRY_BUFFER_BYTES),
            ("grpc.max_receive_message_length", -1),
            # A retry must find a new attempt to connect, not the failure of an old one.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
        ]
        if self.address.is_loopback:
            options.append(("grpc.enable_http_proxy", 0))
        if self._tls_context:
            credentials = grpc.ssl_channel_credentials(_roots(self._tls_context))
            self._channel = grpc.secure_channel(self.server, credentials, options)
        else:
            self._channel = grpc.insecure_channel(self.server, options)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._metadata = (
            [("authorization", f"Bearer {self.token}")] if self.token else []
        )

    def _method(self) -> dict[str, Any]:
        """Returns what gRPC is to do with every method."""
        method: dict[str, Any] = {"name": [{}]}
        if self.retries:
            method["retryPolicy"] = {
                "maxAttempts": self.retries + 1,
                "initialBackoff": f"{self.backoff:.3f}s",
                "maxBackoff": f"{max(MOST_BACKOFF, self.backoff):.3f}s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
            }
        return method

    def _predict(self, sentences: list[str]) -> dict[str, np.ndarray]:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = self.model_name
        request.model_spec.signature_name = self.signature_name
        if self.version is not None:
            request.model_spec.version.value = self.version
        if self.label:
            request.model_spec.version_label = self.label
        # Half a surrogate pair is no text; the server says so of its row.
        encoded = [text.encode("utf-8", "surrogatepass") for text in sentences]
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(encoded, tf.string))
        try:
            response = self._stub.Predict(
                request, timeout=self.timeout, metadata=self._metadata
            )
        except grpc.RpcError as error:
            raise RequestError(
                self.server, error.code().name, error.details() or "no reason given"
            ) from None
        try:
            return {
                name: tf.make_ndarray(tensor)
                for name, tensor in response.outputs.items()
            }
        except (TypeError, ValueError, KeyError) as error:
            said = f"a malformed tensor: {error}"
            raise RequestError(self.server, INVALID_ANSWER, said) from error

    def close(self) -> None:
        """Closes the connection; what is under way ends."""
        self._channel.close()


def _roots(context: ssl.SSLContext) -> bytes | None:
    """Returns whom a context trusts, as PEM; None for gRPC's own list."""
    certificates = context.get_ca_certs(binary_form=True)
    return "".join(map(ssl.DER_cert_to_PEM_cert, certificates)).encode() or None
