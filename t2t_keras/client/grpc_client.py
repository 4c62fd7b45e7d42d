"""Asks a model server for translations over gRPC."""

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

from t2t_keras.client.answers import INVALID_ANSWER, RequestError
from t2t_keras.client.model_client import Client

_OWN_DEADLINE = "Deadline Exceeded"
"""What gRPC says where the deadline passed without an answer."""
_PROBE_SECONDS = 2.0
"""For finding out why a server cannot be reached."""


class GrpcClient(Client):
    """Translates by the PredictionService of a model server.

    Args:
        *arguments: Those of `Client`.
        **named: Likewise.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        options = [
            # `Client` sends again, and knows why.
            ("grpc.enable_retries", 0),
            ("grpc.max_receive_message_length", -1),
            # A retry must find a new attempt to connect, not the failure of an old one.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
        ]
        if self.address.is_loopback:
            options.append(("grpc.enable_http_proxy", 0))
        if self._tls_context:
            self._tls_context.set_alpn_protocols(["h2"])
            credentials = grpc.ssl_channel_credentials(
                _roots(self._tls_context),
                _content(self.key_file),
                _content(self.certificate_file),
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
        # Half a surrogate pair is no text; the server says so of its row.
        encoded = [text.encode("utf-8", "surrogatepass") for text in sentences]
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(encoded, tf.string))
        try:
            response = self._stub.Predict(
                request, timeout=seconds, metadata=self._metadata
            )
        except grpc.RpcError as error:
            raise self._failure(error, seconds) from None
        try:
            return {
                name: tf.make_ndarray(tensor)
                for name, tensor in response.outputs.items()
            }
        except (TypeError, ValueError, KeyError) as error:
            said = f"a malformed tensor: {error}"
            raise RequestError(self.server, INVALID_ANSWER, said) from error

    def _failure(self, error: grpc.RpcError, seconds: float) -> RequestError:
        code, said = error.code().name, error.details() or "no reason given"
        is_connected = True
        if code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
            is_connected = self._is_connected()
        if code == "DEADLINE_EXCEEDED" and not is_connected:
            code, said = "UNAVAILABLE", f"no connection within {seconds:.3g} s"
        elif code == "DEADLINE_EXCEEDED" and _OWN_DEADLINE in said:
            said = f"no answer within {seconds:.3g} s"
        elif not is_connected:
            said = self._why_unreachable() or said
        return RequestError(self.server, code, said, is_connected)

    def _why_unreachable(self) -> str | None:
        """Connects without gRPC, which tells the error of one of several addresses.

        So a server at 127.0.0.1 whose certificate is not trusted is "refused", if
        "localhost" is also ::1, where nobody listens.

        Returns:
            What is wrong, or None if it cannot be told so.
        """
        if not self.address.is_loopback and urllib.request.getproxies():
            return None  # gRPC may go another way.
        try:
            with socket.create_connection(self.address, _PROBE_SECONDS) as plain:
                if self._tls_context:
                    with self._tls_context.wrap_socket(
                        plain, server_hostname=self.address.host
                    ) as encrypted:
                        # A server refuses this client's certificate only now.
                        if not encrypted.recv(1):
                            return "the server closed the connection after TLS began"
        except OSError as error:
            return str(error)
        return None

    def _is_connected(self) -> bool:
        """Tells whether there is a connection; that is told to subscribers alone."""
        states: queue.SimpleQueue[grpc.ChannelConnectivity] = queue.SimpleQueue()

        def tell(state: grpc.ChannelConnectivity) -> None:
            states.put(state)

        self._channel.subscribe(tell)
        try:
            return states.get() == grpc.ChannelConnectivity.READY
        finally:
            self._channel.unsubscribe(tell)

    def close(self) -> None:
        """Closes the connection; what is under way ends."""
        self._channel.close()


def _content(file: str | None) -> bytes | None:
    return Path(file).read_bytes() if file else None


def _roots(context: ssl.SSLContext) -> bytes | None:
    """Returns whom a context trusts, as PEM; None for gRPC's own list."""
    certificates = context.get_ca_certs(binary_form=True)
    return "".join(map(ssl.DER_cert_to_PEM_cert, certificates)).encode() or None
