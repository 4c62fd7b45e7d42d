"""Malformed input over real sockets: right code, no file access, no crash."""

import contextlib
import json
import shutil
import sys
import threading
import urllib.error
import urllib.request

import abuse
import exported
import pytest
import served

PREDICT = "/v1/models/words:predict"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Base directory next to a decoy that no request may reach."""
    root = tmp_path_factory.mktemp("models")
    exported.export(root / "words" / "1", *exported.toy())
    shutil.copytree(root / "words", root / "decoy")
    return root / "words"


def run(base, **options):
    return served.server(
        "--model_name=words",
        f"--model_base_path={base}",
        "--request_timeout_s=3",
        "--max_request_bytes=50000",
        **options,
    )


@pytest.fixture(scope="module")
def server(base):
    with run(base) as running:
        yield running


@pytest.fixture(autouse=True)
def server_still_works(server):
    """Checks after each test that a valid request gets the same response as before."""
    before = valid_response(server)
    yield
    after = valid_response(server)
    # The last bit of a score may differ with the batch a row was computed in.
    assert after.pop("score") == pytest.approx(before.pop("score"), rel=1e-5)
    assert after == before


def valid_response(server):
    """Returns the columns of the response to a valid request."""
    status, content = server.get(PREDICT, abuse.GOOD)
    assert status == 200
    rows = content["predictions"]
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_malformed_rest_requests_are_rejected(server):
    for case in abuse.rest_cases("words", 120):
        status, body = abuse.send_rest(server, case)
        assert status in case.right, (case, body[:300])
        assert json.loads(body)["error"]


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PROPFIND", "PUT"])
@pytest.mark.parametrize(
    ("path", "allowed"),
    [(PREDICT, "POST"), ("/v1/models/words", "GET"), ("/v1/no", "GET")],
)
def test_unsupported_http_methods_are_rejected(server, method, path, allowed):
    request = urllib.request.Request(server.url + path, method=method)
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(request, timeout=60)
    with raised.value as response:
        assert method in json.load(response)["error"]
        # As TensorFlow Serving responds to PUT and similar methods.
        status, allow = (400, None) if method == "PUT" else (405, allowed)
        assert (response.status, response.headers["Allow"]) == (status, allow)


def test_malformed_grpc_messages_are_rejected(server):
    with server.channel() as channel:
        for case in abuse.grpc_cases("words", 80):
            assert abuse.send_grpc(channel, case) in case.right, case


def test_oversized_requests_are_rejected(server):
    large = abuse.RestCase(PREDICT, b'{"instances": ["' + b"a" * 60_000, (413,))
    assert abuse.send_rest(server, large)[0] == 413
    with server.channel() as channel:
        case = abuse.GrpcCase(b"\x0a" * 60_000, ())
        assert abuse.send_grpc(channel, case) == "RESOURCE_EXHAUSTED"
    with abuse.open_socket(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "content",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"POST "
        + PREDICT.encode()
        + b" HTTP/1.1\r\nHost: x\r\nContent-Length: no\r\n\r\n",
        b"POST " + PREDICT.encode() + b" HTTP/1.1\r\nHost: x\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nnot a length\r\n",
    ],
    ids=["TLS", "no request", "no length", "no chunk"],
)
def test_malformed_http_is_rejected(server, content):
    with abuse.open_socket(server) as connection:
        connection.sendall(content)
        assert connection.recv(100).startswith((b"HTTP/1.1 400", b"HTTP/1.1 499", b""))


def test_slow_clients_time_out(server):
    with abuse.open_socket(server) as headers, abuse.open_socket(server) as body:
        headers.sendall(b"POST " + PREDICT.encode() + b" HTTP/1.1\r\nHo")
        body.sendall(abuse.post(PREDICT, b'{"inst', length=100))
        assert body.recv(100).startswith(b"HTTP/1.1 504")
        assert server.get(PREDICT, abuse.GOOD)[0] == 200
        assert headers.recv(100) == b""  # Closed.


def test_silent_streams_and_connections_do_not_block_requests(server):
    done = threading.Event()

    def messages():
        done.wait()
        yield b""

    with contextlib.ExitStack() as stack:
        stack.callback(done.set)
        for _ in range(300):
            stack.enter_context(abuse.open_socket(server))
        channel = stack.enter_context(server.channel())
        silent = [channel.stream_stream(abuse.PREDICT)(messages()) for _ in range(20)]
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        watches = [watch(b"") for _ in range(600)]
        assert valid_response(server)
        with server.channel() as other:
            request = served.predict_request("words", text=["the 7"])
            assert served.prediction(other).Predict(request, timeout=60).outputs
        for call in [*silent, *watches]:
            call.cancel()


def test_disconnected_clients_do_not_affect_others(server):
    content = json.dumps(abuse.GOOD).encode()
    for number in range(60):
        request = abuse.post(PREDICT, content)
        abuse.vanish(server, request[: len(request) * (number % 4 + 1) // 4])
    with server.channel() as channel:
        for _ in range(20):
            request = served.predict_request("words", text=["the 7"])
            served.prediction(channel).Predict.future(request).cancel()
    assert server.get(PREDICT, abuse.GOOD)[0] == 200


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace, to see all files")
def test_names_in_requests_are_not_used_as_paths(base, server, tmp_path):
    log = tmp_path / "files"
    strace = ("strace", "-f", "--seccomp-bpf", "-qq", "-s", "500")
    traced = (*strace, "-e", "trace=file", "-o", str(log))
    with run(base, under=traced) as running:
        running.wait_for("REST and page")
        before = log.stat().st_size
        for name in abuse.OUTSIDE:
            for path in (
                f"/v1/models/{name}",
                f"/v1/models/words/labels/{name}:predict",
            ):
                abuse.send_rest(running, abuse.RestCase(path, b"{}", ()))
        with running.channel() as channel:
            for name in ("../decoy", "/etc/passwd"):
                request = served.predict_request(name, text=["a"])
                case = abuse.GrpcCase(request.SerializeToString(), ())
                assert abuse.send_grpc(channel, case) == "NOT_FOUND"
        # strace buffers 4 KiB: later calls flush the earlier ones.
        after = log.stat().st_size
        while log.stat().st_size < after + 10_000:
            assert running.process.poll() is None
        file_calls = log.read_bytes()[before:]
    assert b"words" in file_calls  # The server polls for new versions.
    for part in (b"decoy", b"passwd", b"HOME", b"/labels/"):
        assert part not in file_calls


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
