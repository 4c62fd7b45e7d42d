"""Malformed requests, and the right responses to them."""

import http.client
import json
import random
import socket
import struct
from typing import NamedTuple

import grpc
import served
import tensorflow as tf

PREDICT = "/tensorflow.serving.PredictionService/Predict"
GOOD = {"instances": ["the 7", "a dog 3"]}
OUTSIDE = (
    *(
        "..",
        "../decoy",
        "../../decoy",
        "/etc/passwd",
        "words/../../decoy",
        "1/../../decoy",
    ),
    *("%2e%2e", "%2e%2e%2fdecoy", "..%2fdecoy", "%2fetc%2fpasswd", "..%5cdecoy"),
    *("%252e%252e%252fdecoy", "decoy%00", "%c0%ae%c0%ae%c0%afdecoy", "\u2025/decoy"),
    *("....//decoy", "file:///etc/passwd", "~/decoy", "$HOME/decoy", "words;/../decoy"),
)
"""Names that would lead out of the models' directory if used as paths."""


class RestCase(NamedTuple):
    """A REST request.

    Attributes:
        path: Path as sent.
        body: Body as sent.
        right: Right HTTP statuses.
    """

    path: str
    body: bytes
    right: tuple[int, ...]


class GrpcCase(NamedTuple):
    """A message for Predict.

    Attributes:
        message: Message as sent.
        right: Names of the right status codes.
    """

    message: bytes
    right: tuple[str, ...]


def rest_cases(model, number, seed=0):
    """Returns malformed REST requests to a model with the input `text`."""
    rng = random.Random(seed)
    url = f"/v1/models/{model}:predict"
    good = json.dumps(GOOD).encode()

    def mangled():
        kind = rng.randrange(5)
        if kind == 0:
            return good[: rng.randrange(len(good))]
        if kind == 1:  # A byte that JSON cannot start with.
            return bytes([rng.randrange(128, 256)]) + rng.randbytes(rng.randrange(300))
        if kind == 2:
            opened = rng.choice([b"[", b'{"instances":', b'{"a":'])
            return opened * rng.randrange(1, 3000)
        if kind == 3:
            return good + rng.choice([b"}", b"]", b"x", b"\x00", good])
        return good.replace(
            b'"the', rng.choice([b"", b'"\n', b'"\\x', b'"\\ud83']) + b"the"
        )

    def wrong():
        depth = rng.randrange(2, 500)
        nested = "the"
        for _ in range(depth):
            nested = [nested]
        value = rng.choice(
            [
                *(None, True, 3, -1.5, 10**400, [], {}, [[]], [None], [1, "a"]),
                *(["a", ["b"]], [["a"], ["b", "c"]], nested, {"b64": 1}, {"b64": "*"}),
                *(
                    {"text": {"text": "a"}},
                    {"txet": ["a"]},
                    [{"text": "a"}, {"b": "c"}],
                ),
                *({"text": ["a"], "more": ["b"]}, [{"b64": "==="}], float("nan")),
            ]
        )
        body = {rng.choice(["instances", "inputs"]): value}
        # Empty columns and unknown columns are well-formed.
        if value in ([], [[]], {"text": ["a"], "more": ["b"]}):
            body = {"instances": value}
        if rng.random() < 0.3:
            body["signature_name"] = rng.choice(
                ["none", "../x", 5, None, ["a"], "x" * 9999]
            )
        if rng.random() < 0.2:
            body = rng.choice(
                [[body], "text", 7, None, {**body, "instances": 1, "inputs": 2}]
            )
        return json.dumps(body).encode()

    def outside():
        name = rng.choice(OUTSIDE)
        return rng.choice(
            [
                f"/v1/models/{name}:predict",
                f"/v1/models/{name}",
                f"/v1/models/{model}/versions/{name}:predict",
                f"/v1/models/{model}/labels/{name}:predict",
                f"/v1/models/{model}/labels/{name}/metadata",
                f"/{name}",
                f"/v1/models/{model}/versions/{'0' * 20}{'9' * 20}:predict",
            ]
        )

    cases = []
    for _ in range(number):
        kind = rng.randrange(3)
        if kind == 0:
            cases.append(RestCase(url, mangled(), (400,)))
        elif kind == 1:
            cases.append(RestCase(url, wrong(), (400,)))
        else:
            cases.append(RestCase(outside(), good, (400, 404)))
    return cases


def grpc_cases(model, number, seed=0):
    """Returns malformed messages for Predict to a model with the input `text`."""
    rng = random.Random(seed)

    def request(*arguments, **inputs):
        return served.predict_request(model, *arguments, **inputs)

    def shaped(*sizes, unknown=False):
        wanted = request(text=["a"])
        shape = wanted.inputs["text"].tensor_shape
        del shape.dim[:]
        shape.unknown_rank = unknown
        for size in sizes:
            shape.dim.add(size=size)
        return wanted

    def of_version(value=None, label=None):
        wanted = request(text=["a"])
        if label is None:
            wanted.model_spec.version.value = value
        else:
            wanted.model_spec.version_label = label
        return wanted

    def of_dtype(number):
        wanted = request(text=["a"])
        wanted.inputs["text"].dtype = number
        return wanted

    def overflowing():
        wanted = request(text=["a"])
        wanted.inputs["text"].dtype = tf.int8.as_datatype_enum
        wanted.inputs["text"].int_val.append(300)
        return wanted

    def claiming():
        # Each is small, but together they take the whole memory.
        wanted = shaped(4000)
        for number in range(2000):
            wanted.inputs[str(number)].CopyFrom(wanted.inputs["text"])
        return wanted

    invalid = ("INVALID_ARGUMENT",)
    cases = []
    for _ in range(number):
        name = rng.choice([name for name in OUTSIDE if "\u2025" not in name])
        message, right = rng.choice(
            [
                (served.predict_request(text=["a"]), invalid),
                (served.predict_request(name, text=["a"]), ("NOT_FOUND",)),
                (of_version(value=rng.choice([-1, 0, 99, -(2**63)])), ("NOT_FOUND",)),
                (of_version(label=name), invalid),
                (request(name, text=["a"]), ("FAILED_PRECONDITION",)),
                (request(outputs=[name], text=["a"]), invalid),
                (request(), invalid),
                (request(txet=["a"]), invalid),
                (request(text=["a"], more=[1]), invalid),
                (request(text=[rng.random()]), invalid),
                (request(text=[["a"], ["b"]]), invalid),
                (request(text="a"), invalid),
                (shaped(10**12), invalid),
                (overflowing(), invalid),
                (claiming(), (*invalid, "RESOURCE_EXHAUSTED")),
                (served.predict_request("x" * 20_000, text=["a"]), ("NOT_FOUND",)),
                (shaped(2**31, 2**31, 2**31), invalid),
                (shaped(-rng.randrange(1, 99)), invalid),
                (shaped(unknown=True), invalid),
                (shaped(*[1] * rng.randrange(40, 300)), invalid),
                (of_dtype(rng.choice([0, 1, 3, 8, 13, 20, 21, 22, 101])), invalid),
            ]
        )
        content = message.SerializeToString()
        if rng.random() < 0.25:
            # A wrong length, so that the message cannot be parsed.
            content = b"\x0a\xff\x7f" + rng.randbytes(rng.randrange(99))
            right = invalid
        cases.append(GrpcCase(content, right))
    return cases


def send_rest(server, case):
    """Sends a request as it is; returns the status and the body."""
    host, port = server.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        # Sent by hand, since http.client rejects such paths.
        head = f"POST {case.path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        head += f"Content-Length: {len(case.body)}\r\n\r\n"
        connection.connect()
        connection.sock.sendall(head.encode() + case.body)
        response = http.client.HTTPResponse(connection.sock, method="POST")
        response.begin()
        return response.status, response.read()
    finally:
        connection.close()


def send_grpc(channel, case):
    """Sends bytes as a message; returns the name of the status code."""
    call = channel.unary_unary(
        PREDICT, lambda content: content, lambda content: content
    )
    try:
        call(case.message, timeout=60)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


def open_socket(server):
    """Opens a connection to the server's REST port."""
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), 60)


def vanish(server, content):
    """Sends bytes and resets the connection."""
    with open_socket(server) as connection:
        connection.sendall(content)
        # A linger time of 0 sends a reset.
        linger = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def post(path, body, length=None):
    """Returns the bytes of a request, whose Content-Length may be wrong."""
    length = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
    return head.encode() + body
