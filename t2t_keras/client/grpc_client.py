"""gRPC client of a model server."""

import queue
import socket
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from t2t_keras.client.model_client import Client
from t2t_keras.client.responses import INVALID_RESPONSE, RequestError

_OWN_DEADLINE = "Deadline Exceeded"
"""gRPC's message if the deadline passed without a response."""
_PROBE_SECONDS = 2.0
"""Timeout of the probe that finds out why a server cannot be reached."""


class GrpcClient(Client):
    """Translates with the PredictionService of a model server.

    Args:
        *arguments: Arguments of `Client`.
        **named: Arguments of `Client`.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        options = [
            # `Client` retries, depending on the error.
            ("grpc.enable_retries", 0),
            ("grpc.max_receive_message_length", -1),
            # A retry must make a new connection attempt, not get the last failure.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
        ]
        if self.address.is_loopback:
            options.append(("grpc.enable_http_proxy", 0))
        if self._tls_context:
            self._tls_context.set_alpn_protocols(["h2"])
            credentials = grpc.ssl_channel_credentials(
                _trusted_certificates(self._tls_context),
                _read_file(self.key_file),
                _read_file(self.certificate_file),
            )
            self._channel = grpc.secure_channel(self.server, credentials, options)
        else:
            self._channel = grpc.insecure_channel(self.server, options)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._metadata = (
            [("authorization", f"Bearer {self.token}")] if self.token else []
        )

    def _predict(self, sentences: list[str], seconds: float) -> dict[str, np.ndarray]:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = self.model_name
        request.model_spec.signature_name = self.signature_name
        if self.version is not None:
            request.model_spec.version.value = self.version
        if self.label:
            request.model_spec.version_label = self.label
        # A lone surrogate is not valid text; the server reports that row as invalid.
        encoded = [text.encode("utf-8", "surrogatepass") for text in sentences]
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(encoded, tf.string))
        try:
            response = self._stub.Predict(
                request, timeout=seconds, metadata=self._metadata
            )
        except grpc.RpcError as error:
            raise self._request_error(error, seconds) from None
        try:
            return {
                name: tf.make_ndarray(tensor)
                for name, tensor in response.outputs.items()
            }
        except (TypeError, ValueError, KeyError) as error:
            message = f"a malformed tensor: {error}"
            raise RequestError(self.server, INVALID_RESPONSE, message) from error

    def _request_error(self, error: grpc.RpcError, seconds: float) -> RequestError:
        code, message = error.code().name, error.details() or "no reason given"
        is_connected = True
        if code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
            is_connected = self._is_connected()
        if code == "DEADLINE_EXCEEDED" and not is_connected:
            code, message = "UNAVAILABLE", f"no connection within {seconds:.3g} s"
        elif code == "DEADLINE_EXCEEDED" and _OWN_DEADLINE in message:
            message = f"no response within {seconds:.3g} s"
        elif not is_connected:
            message = self._connection_error() or message
        return RequestError(self.server, code, message, is_connected)

    def _connection_error(self) -> str | None:
        """Connects without gRPC to find the cause of a connection failure.

        gRPC reports the error of only one of a host's addresses: if "localhost" is
        both 127.0.0.1 and ::1, and nothing listens on ::1, an untrusted certificate on
        127.0.0.1 is reported as "refused".

        Returns:
            The error message, or None if the cause cannot be found this way.
        """
        if not self.address.is_loopback and urllib.request.getproxies():
            return None  # gRPC may use a proxy.
        try:
            with socket.create_connection(self.address, _PROBE_SECONDS) as plain:
                if self._tls_context:
                    with self._tls_context.wrap_socket(
                        plain, server_hostname=self.address.host
                    ) as encrypted:
                        # With TLS 1.3 a server rejects a client certificate only now.
                        if not encrypted.recv(1):
                            return "the server closed the connection after TLS began"
        except OSError as error:
            return str(error)
        return None

    def _is_connected(self) -> bool:
        """Returns whether the channel is connected; gRPC tells only subscribers."""
        states: queue.SimpleQueue[grpc.ChannelConnectivity] = queue.SimpleQueue()

        def notify(state: grpc.ChannelConnectivity) -> None:
            states.put(state)

        self._channel.subscribe(notify)
        try:
            return states.get() == grpc.ChannelConnectivity.READY
        finally:
            self._channel.unsubscribe(notify)

    def close(self) -> None:
        """Closes the connection; requests in progress fail."""
        self._channel.close()


def _read_file(file: str | None) -> bytes | None:
    return Path(file).read_bytes() if file else None


def _trusted_certificates(context: ssl.SSLContext) -> bytes | None:
    """Returns a context's trusted certificates as PEM; None for gRPC's defaults."""
    certificates = context.get_ca_certs(binary_form=True)
    return "".join(map(ssl.DER_cert_to_PEM_cert, certificates)).encode() or None
