"""A model server in a separate process, for tests."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import command
import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)


class Server:
    """A running `t2t-serve`.

    Attributes:
        port: gRPC port.
        url: REST URL without a trailing slash.
        process: The process.
        lines: Lines on standard error so far.
    """

    def __init__(self, *arguments, scheme="http", under=()):
        self.port, rest_port = command.free_ports(2)
        self.url = f"{scheme}://127.0.0.1:{rest_port}"
        self.lines = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [
                *(*under, sys.executable, "-m", "t2t_keras.pipelines.serve"),
                *(f"--port={self.port}", f"--rest_api_port={rest_port}"),
                "--file_system_poll_wait_seconds=0.05",
                *map(str, arguments),
            ],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.rstrip())
                self._changed.notify_all()
        with self._changed:
            self.lines.append(None)
            self._changed.notify_all()

    def wait_for(self, text, seconds=120):
        """Waits until a line of the log contains a text."""
        with self._changed:
            assert self._changed.wait_for(
                lambda: None in self.lines or any(text in line for line in self.lines),
                seconds,
            ), self.lines
            assert any(text in line for line in self.lines if line), self.lines

    def stop(self, seconds=60):
        """Sends SIGTERM and returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def get(self, path, body=None, headers=None, **options):
        """Sends a REST request; returns the status and the JSON or text."""
        request = urllib.request.Request(
            self.url + path,
            data=body if body is None or isinstance(body, bytes) else dump(body),
            headers=headers or {},
        )
        try:
            with urllib.request.urlopen(request, timeout=60, **options) as response:
                return response.status, parsed(response.read())
        except urllib.error.HTTPError as error:
            return error.code, parsed(error.read())

    def channel(self, credentials=None):
        """Opens a gRPC channel."""
        address = f"127.0.0.1:{self.port}"
        if credentials:
            return grpc.secure_channel(address, credentials)
        return grpc.insecure_channel(address)


def dump(value):
    return json.dumps(value).encode()


def parsed(content):
    try:
        return json.loads(content)
    except ValueError:
        return content.decode()


@contextlib.contextmanager
def server(*arguments, **options):
    """Runs a server until the block ends; it is ready when the block starts."""
    running = Server(*arguments, **options)
    try:
        running.wait_for("REST and page")
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.process.pid, signal.SIGKILL)
        running.process.wait()
        running.process.stderr.close()


def prediction(channel):
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


def model_service(channel):
    return model_service_pb2_grpc.ModelServiceStub(channel)


def predict_request(name="", signature="", outputs=(), **inputs):
    """Returns a PredictRequest with the given inputs."""
    request = predict_pb2.PredictRequest(output_filter=outputs)
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    for key, value in inputs.items():
        request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
    return request
