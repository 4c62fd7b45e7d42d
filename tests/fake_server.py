"""A fake model server over gRPC and REST, for tests of clients.

It "translates" by upper-casing, and fails in the ways that a test requests.
"""

import contextlib
import http.server
import json
import shutil
import ssl
import subprocess
import threading
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

PROTOCOLS = ("grpc", "rest")
HTTP = {
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "UNAVAILABLE": 503,
}


class Refused(Exception):
    """An error response; its arguments are code and message."""


class Model:
    """A fake translation model.

    Attributes:
        failures: Error codes of the next responses.
        token: API token that requests must carry.
        headers: Headers of error responses over REST.
        before: Called with the sentences of a request before the response is sent.
        outputs: Outputs to return instead of translations.
        requests: Name, version, label, signature and sentences of each request.
    """

    def __init__(self, failures=(), token=None, before=None, outputs=None):
        self.failures = list(failures)
        self.token = token
        self.headers = {}
        self.before = before or (lambda sentences: None)
        self.outputs = outputs
        self.requests = []
        self._lock = threading.Lock()

    def predict(self, spec, signature, texts, authorization):
        """Returns the outputs or raises `Refused`."""
        with self._lock:
            self.requests.append((*spec, signature, texts))
            failure = self.failures.pop(0) if self.failures else None
        if self.token and authorization != f"Bearer {self.token}":
            raise Refused("UNAUTHENTICATED", "A valid API token is required.")
        if failure:
            raise Refused(failure, f"as requested: {failure}")
        if spec[0] != "upper":
            raise Refused("NOT_FOUND", f"There is no model {spec[0]}.")
        self.before(texts)
        if self.outputs is not None:
            return self.outputs
        states = [status(text) for text in texts]
        best = [
            text.decode().upper() if state in ("ok", "too_long") else ""
            for text, state in zip(texts, states, strict=True)
        ]
        if signature == "serving_default":
            scores = [-0.1 * len(text) for text in best]
            return {"translation": best, "score": scores, "status": states}
        assert signature == "n_best"
        return {
            "translations": [[text, text + "!", ""] for text in best],
            "scores": [[-0.1, -0.7, -1e9] if text else [0, 0, 0] for text in best],
            "status": states,
        }


def status(text):
    try:
        text = text.decode()
    except UnicodeDecodeError:
        return "invalid_utf8"
    if not text:
        return "empty"
    if text.startswith("broken"):
        return "model_error"
    return "too_long" if text.startswith("long") else "ok"


class _Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, model):
        self.model = model

    def Predict(self, request, context):
        spec = request.model_spec
        version = spec.version.value if spec.HasField("version") else None
        try:
            outputs = self.model.predict(
                (spec.name, version, spec.version_label or None),
                spec.signature_name,
                tf.make_ndarray(request.inputs["text"]).tolist(),
                dict(context.invocation_metadata()).get("authorization"),
            )
        except Refused as refused:
            code, message = refused.args
            context.abort(grpc.StatusCode[code], message)
        response = predict_pb2.PredictResponse()
        for name, values in outputs.items():
            is_score = name.startswith("score")
            response.outputs[name].CopyFrom(
                tf.make_tensor_proto(values, tf.float32 if is_score else tf.string)
            )
        return response


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model = None

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path, _, verb = self.path.rpartition(":")
        assert verb == "predict"
        parts = [urllib.parse.unquote(part) for part in path.split("/")][3:]
        choice = dict(zip(parts[1::2], parts[2::2], strict=True))
        version = int(choice["versions"]) if "versions" in choice else None
        sentences = [
            tf.io.decode_base64(text["b64"].replace("+", "-").replace("/", "_")).numpy()
            if isinstance(text, dict)
            else text.encode()
            for text in body["inputs"]["text"]
        ]
        headers = {}
        try:
            outputs = self.model.predict(
                (parts[0], version, choice.get("labels")),
                body["signature_name"],
                sentences,
                self.headers["Authorization"],
            )
            code, result = 200, {"outputs": outputs}
        except Refused as refused:
            code, result = HTTP[refused.args[0]], {"error": refused.args[1]}
            headers = self.model.headers
        content = json.dumps(result).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        """Does not log."""


class _HttpServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Ignores clients that have disconnected."""


@contextlib.contextmanager
def serving(protocol, model, certificate=None, client_ca=None):
    """Serves a model until the block ends.

    Args:
        protocol: "grpc" or "rest".
        model: A `Model`.
        certificate: Directory with `cert.pem` and `key.pem`, for TLS.
        client_ca: File of the authority that must have signed client certificates.

    Yields:
        HOST:PORT.
    """
    if protocol == "grpc":
        with ThreadPoolExecutor(16) as pool:
            server = grpc.server(pool)
            prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
                _Service(model), server
            )
            if certificate:
                pair = [
                    (certificate / f"{n}.pem").read_bytes() for n in ("key", "cert")
                ]
                credentials = grpc.ssl_server_credentials(
                    [tuple(pair)],
                    client_ca.read_bytes() if client_ca else None,
                    require_client_auth=client_ca is not None,
                )
                port = server.add_secure_port("127.0.0.1:0", credentials)
            else:
                port = server.add_insecure_port("127.0.0.1:0")
            server.start()
            try:
                yield f"localhost:{port}"
            finally:
                server.stop(None).wait()
        return
    handler = type("Handler", (_Handler,), {"model": model})
    with _HttpServer(("127.0.0.1", 0), handler) as server:
        if certificate:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
            if client_ca:
                context.load_verify_locations(client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=[0.02])
        thread.start()
        try:
            yield f"localhost:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def certificate(path):
    """Writes a self-signed `cert.pem` and its `key.pem` to a directory."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed; it creates the certificate.")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days=2"),
            *("-keyout", path / "key.pem", "-out", path / "cert.pem"),
            *("-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return path
