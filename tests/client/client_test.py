"""Clients of a model server over real sockets, against a fake model."""

import contextlib
import itertools
import math
import socket
import subprocess
import sys
import threading

import command
import fake_server
import numpy as np
import pytest
from fake_server import PROTOCOLS, Model

from t2t_keras.client.grpc_client import GrpcClient
from t2t_keras.client.model_client import Address
from t2t_keras.client.responses import RequestError, read_response
from t2t_keras.client.rest_client import RestClient
from t2t_keras.decoding.translator import Translation

KINDS = {"grpc": GrpcClient, "rest": RestClient}
WAIT = 60  # Seconds until a hanging test fails.


@pytest.fixture(params=PROTOCOLS)
def protocol(request):
    return request.param


@pytest.fixture
def connect(protocol):
    """Function that serves a model and returns a client for it."""
    with contextlib.ExitStack() as stack:

        def connect(model, certificate=None, name="upper", client_ca=None, **options):
            server = stack.enter_context(
                fake_server.serving(protocol, model, certificate, client_ca)
            )
            client = KINDS[protocol](server, name, **{"backoff": 0.01, **options})
            return stack.enter_context(client)

        yield connect


def error_of(call):
    with pytest.raises(RequestError) as raised:
        call()
    return raised.value


def test_translations_have_text_score_and_status(connect):
    client = connect(Model())
    sentences = ["a b", "", "long one", "\ud800", "\0 ü\u2028"]
    (plain, empty, long, invalid, odd) = client.translate(sentences)
    assert plain == [Translation("A B", float(np.float32(-0.3)), "ok")]
    assert empty == [Translation("", None, "empty")]
    assert (long[0].text, long[0].status) == ("LONG ONE", "too_long")
    assert invalid == [Translation("", None, "invalid_utf8")]
    assert odd[0].text == "\0 Ü\u2028"
    assert client.translate([]) == []
    with pytest.raises(ValueError, match="sentences must be a list"):
        client.translate("a b")


def test_n_best_drops_missing_hypotheses(connect):
    client = connect(Model(), n_best=True)
    assert client.translate(["a", ""]) == [
        [
            Translation("A", float(np.float32(-0.1)), "ok"),
            Translation("A!", float(np.float32(-0.7)), "ok"),
        ],
        [Translation("", None, "empty")],
    ]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, ("upper", None, None)),
        ({"version": 0}, ("upper", 0, None)),
        ({"version": 7}, ("upper", 7, None)),
        ({"label": "a/b:c"}, ("upper", None, "a/b:c")),
    ],
)
def test_version_and_label_are_sent(connect, chosen, expected):
    model = Model()
    connect(model, **chosen).translate(["a"])
    assert model.requests == [(*expected, "serving_default", [b"a"])]


def test_busy_server_is_retried(connect):
    model = Model(["RESOURCE_EXHAUSTED", "UNAVAILABLE", "UNAVAILABLE", "UNAVAILABLE"])
    # Larger than gRPC's own retry buffer.
    sentence = "a" * 400_000
    ((best,),) = connect(model).translate([sentence])
    assert best.text == sentence.upper()
    assert len(model.requests) == 5


@pytest.mark.parametrize("retries", [0, 1, 4])
def test_number_of_retries_is_limited(connect, retries):
    model = Model(["UNAVAILABLE"] * 9)
    client = connect(model, retries=retries)
    error = error_of(lambda: client.translate(["a"]))
    assert error.code == "UNAVAILABLE"
    assert "as requested: UNAVAILABLE" in str(error)
    assert client.server in str(error)
    assert len(model.requests) == retries + 1


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "UNAUTHENTICATED", "NOT_FOUND"])
def test_permanent_errors_are_not_retried(connect, code):
    model = Model([code] * 2)
    client = connect(model)
    error = error_of(lambda: client.translate(["a"]))
    assert error.code == code
    assert len(model.requests) == 1
    assert error_of(lambda: client.translate(["a"])).code == code
    assert client.translate(["a"])[0][0].text == "A"


def test_timeout_ends_slow_request(connect):
    released = threading.Event()
    model = Model(before=lambda texts: released.wait(WAIT))
    client = connect(model, timeout=0.2)
    try:
        error = error_of(lambda: client.translate(["a"]))
        assert error.code == "DEADLINE_EXCEEDED"
        assert "no response within 0.2 s" in str(error)
    finally:
        released.set()


def test_timeout_covers_all_retries(connect):
    model = Model(["UNAVAILABLE"] * 9)
    client = connect(model, timeout=0.2, backoff=1000.0)
    assert error_of(lambda: client.translate(["a"])).code == "DEADLINE_EXCEEDED"
    assert len(model.requests) == 1


def test_retry_after_is_honored():
    model = Model(["UNAVAILABLE"])
    model.headers = {"Retry-After": "0"}
    with fake_server.serving("rest", model) as server:
        client = RestClient(server, "upper", backoff=1000.0)
        assert client.translate(["a"])[0][0].text == "A"
        model.failures = ["RESOURCE_EXHAUSTED"]
        model.headers = {"Retry-After": "3600"}
        error = error_of(lambda: client.translate(["a"]))
        assert error.code == "DEADLINE_EXCEEDED"
        assert "HTTP 429" in error.message
        client.close()


def test_refused_connection_is_unavailable(protocol):
    (port,) = command.free_ports(1)
    client = KINDS[protocol](f"localhost:{port}", "upper", backoff=0.01)
    error = error_of(lambda: client.translate(["a"]))
    assert error.code == "UNAVAILABLE"
    assert "refused" in str(error)
    assert f"localhost:{port}" in str(error)
    client.close()


def test_server_that_is_down_is_not_reported_as_slow(protocol):
    """The timeout expires before the last retry."""
    (port,) = command.free_ports(1)
    with KINDS[protocol](f"localhost:{port}", "upper", timeout=1, backoff=9) as client:
        error = error_of(lambda: client.translate(["a"]))
    assert error.code == "UNAVAILABLE"
    assert "refused. Nothing listens there" in str(error)


def test_host_that_does_not_connect_is_not_reported_as_slow():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        with GrpcClient(server, "upper", timeout=0.3) as client:
            error = error_of(lambda: client.translate(["a"]))
    assert error.code == "UNAVAILABLE"
    assert "no connection within 0.3 s. The host does not respond" in str(error)


def test_responses_without_translations_are_invalid(connect):
    for outputs in (
        {"y": ["a"]},
        {"translation": ["a", "b"], "score": [0.0, 0.0], "status": ["ok", "ok"]},
        {"translation": [["a"]], "score": [[0.0]], "status": ["ok"]},
        {"translation": ["a"], "score": [0.0, 0.0], "status": ["ok"]},
    ):
        client = connect(Model(outputs=outputs))
        error = error_of(lambda client=client: client.translate(["a"]))
        assert error.code == "INVALID_RESPONSE", outputs
    ragged = {"translation": ["a"], "score": ["x"], "status": ["ok"]}
    with pytest.raises(RequestError, match="INVALID_RESPONSE"):
        read_response("server", ragged, 1, n_best=False)


def test_nan_scores_of_older_exports_become_model_error():
    outputs = {
        "translation": ["", "B"],
        "score": [float("nan"), -0.5],
        "status": ["ok", "ok"],
    }
    broken, valid = read_response("server", outputs, 2, n_best=False)
    assert broken == [("", None, "model_error")]
    assert valid == [("B", -0.5, "ok")]


def test_token_is_sent_and_never_shown(connect):
    model = Model(token="s3cret")
    assert connect(model, token="s3cret").translate(["a"])[0][0].text == "A"
    error = error_of(lambda: connect(model, token="no").translate(["a"]))
    assert error.code == "UNAUTHENTICATED"
    assert "s3cret" not in str(error)
    assert "Check the API token" in str(error)


def test_token_is_not_sent_unencrypted(protocol):
    kind = KINDS[protocol]
    for server in ("example.com:8500", "10.0.0.1:8500", "localhost.example.com:1"):
        with pytest.raises(ValueError, match="sent unencrypted"):
            kind(server, "upper", token="s3cret")
        kind(server, "upper", token="s3cret", tls=True).close()
    for server in ("localhost:1", "127.0.0.1:1", "[::1]:1"):
        kind(server, "upper", token="s3cret").close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return [fake_server.certificate(tmp_path_factory.mktemp("tls")) for _ in range(2)]


def test_tls_trusts_given_authority_only(connect, certificates):
    server_dir, other_dir = certificates
    model = Model(token="s3cret")
    client = connect(
        model, server_dir, token="s3cret", ca_file=str(server_dir / "cert.pem")
    )
    assert client.translate(["a"])[0][0].text == "A"
    for options in (
        {"ca_file": str(other_dir / "cert.pem")},
        {"tls": True},
        {"tls": False},
    ):
        wrong = connect(model, server_dir, token="s3cret", retries=1, **options)
        error = error_of(lambda wrong=wrong: wrong.translate(["a"]))
        assert error.code == "UNAVAILABLE"
    assert len(model.requests) == 1


def test_untrusted_certificate_is_reported_and_not_retried(connect, certificates):
    server_dir, other_dir = certificates
    ca_file = str(other_dir / "cert.pem")
    # A retry would hang the test.
    client = connect(Model(), server_dir, ca_file=ca_file, backoff=1e6, timeout=1e9)
    error = error_of(lambda: client.translate(["a"]))
    assert error.code == "UNAVAILABLE"
    assert "The server's certificate is not trusted" in str(error)


def test_client_certificate_is_presented(connect, certificates):
    server_dir, other_dir = certificates
    options = {
        "ca_file": str(server_dir / "cert.pem"),
        "client_ca": other_dir / "cert.pem",
    }
    pair = {
        "certificate_file": other_dir / "cert.pem",
        "key_file": other_dir / "key.pem",
    }
    model = Model()
    client = connect(model, server_dir, **options, **pair)
    assert client.translate(["a"])[0][0].text == "A"
    for wrong in (
        {},
        {
            "certificate_file": server_dir / "cert.pem",
            "key_file": server_dir / "key.pem",
        },
    ):
        client = connect(model, server_dir, retries=0, **options, **wrong)
        error = error_of(lambda client=client: client.translate(["a"]))
        assert error.code == "UNAVAILABLE"
        assert "refused" not in str(error)
    assert len(model.requests) == 1


def test_unusable_client_certificate_is_rejected(protocol, certificates):
    server_dir, other_dir = certificates
    certificate, key = server_dir / "cert.pem", server_dir / "key.pem"
    encrypted = server_dir / "encrypted.pem"
    subprocess.run(
        [
            *("openssl", "rsa", "-aes128", "-passout", "pass:secret"),
            *("-in", key, "-out", encrypted),
        ],
        check=True,
        capture_output=True,
    )
    for files, message in (
        ((certificate, None), "must be given together"),
        ((certificate, other_dir / "key.pem"), "cannot be used"),
        ((certificate, "/no/file"), "cannot be used"),
        ((certificate, encrypted), "the key is encrypted"),
    ):
        with pytest.raises(ValueError, match=message):
            KINDS[protocol](
                "localhost:1", "upper", certificate_file=files[0], key_file=files[1]
            )


def test_concurrent_translations_are_yielded_in_order(connect):
    numbers = [str(number) for number in range(24)]
    completed = {number: threading.Event() for number in numbers}

    def before(texts):
        # Each group of four completes in reverse order: all four must be in progress.
        number = int(texts[0])
        if number % 4 != 3:
            assert completed[str(number + 1)].wait(WAIT)
        completed[str(number)].set()

    client = connect(Model(before=before))
    results = list(client.stream(numbers, 1, 4))
    assert [group for group, _ in results] == [[number] for number in numbers]
    assert [rows[0][0].text for _, rows in results] == numbers
    assert all(event.is_set() for event in completed.values())


def test_slow_source_is_translated_as_it_arrives(connect):
    completed = threading.Event()

    def source():
        yield "a"
        assert completed.wait(WAIT)
        yield "b"

    stream = connect(Model()).stream(source(), 16, 4)
    assert next(stream)[0] == ["a"]
    completed.set()
    assert next(stream)[0] == ["b"]
    with pytest.raises(StopIteration):
        next(stream)


def test_requests_are_full_if_waiting_is_allowed(connect):
    model = Model()
    stream = connect(model).stream(map(str, range(20)), 8, 2, wait=True)
    assert [len(group) for group, _ in stream] == [8, 8, 4]


def test_endless_source_is_not_read_too_far_ahead(connect):
    yielded = 0

    def source():
        for number in itertools.count():
            # Read ahead: content of `windows`, and 4 for each of 2 concurrent requests.
            assert number < 8 * (yielded + 1) + 8 * (4 * 2 + 2 + 4)
            yield str(number)

    stream = connect(Model()).stream(source(), 8, 2, wait=True)
    for group, _ in itertools.islice(stream, 50):
        yielded += 1
        assert len(group) == 8
    stream.close()


def test_errors_are_raised_after_earlier_results(connect):
    def source():
        yield "a"
        raise ValueError("line 2")

    stream = connect(Model()).stream(source())
    assert next(stream)[0] == ["a"]
    with pytest.raises(ValueError, match="line 2"):
        next(stream)

    def fail_at_c(texts):
        if texts == [b"c"]:
            raise fake_server.Refused("INVALID_ARGUMENT", "no c")

    stream = connect(Model(before=fail_at_c)).stream("abcd", 1, 4)
    assert [next(stream)[0] for _ in range(2)] == [["a"], ["b"]]
    with pytest.raises(RequestError, match="no c"):
        next(stream)


@pytest.mark.parametrize(
    ("server", "options", "message"),
    [
        ("localhost", {}, "HOST:PORT"),
        ("http://localhost:1", {}, "HOST:PORT"),
        ("localhost:1/v1", {}, "HOST:PORT"),
        ("localhost:x", {}, "HOST:PORT"),
        ("user@localhost:1", {}, "HOST:PORT"),
        (":1", {}, "HOST:PORT"),
        ("[::1:1", {}, "HOST:PORT"),
        ("\u00f6..:1", {}, "HOST:PORT"),
        ("a" * 64 + ":1", {}, "HOST:PORT"),
        ("localhost:1", {"timeout": math.nan}, "timeout must be above 0"),
        ("localhost:1", {"timeout": 1e300}, "timeout must be above 0"),
        ("localhost:1", {"label": "\udcff"}, "A name must be valid UTF-8"),
        ("localhost:1", {"model_name": ""}, "A model_name is required"),
        ("localhost:1", {"version": 1, "label": "a"}, "either a version or a label"),
        ("localhost:1", {"timeout": 0}, "above 0"),
        ("localhost:1", {"backoff": 0.001}, "at least"),
        ("localhost:1", {"retries": 5}, "retries must be 0 to 4"),
        ("localhost:1", {"ca_file": __file__}, "holds no certificates"),
        ("localhost:1", {"ca_file": "/no/file"}, "holds no certificates"),
    ],
)
def test_invalid_arguments_are_rejected(protocol, server, options, message):
    with pytest.raises(ValueError, match=message):
        KINDS[protocol](server, **{"model_name": "upper", **options})


def test_addresses_are_parsed():
    assert Address.parse("[::1]:8500") == Address("::1", 8500)
    assert Address.parse("[::1]:8500").is_loopback
    assert Address.parse("127.0.0.9:1").is_loopback
    assert not Address.parse("0.0.0.1:1").is_loopback


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
