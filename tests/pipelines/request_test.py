"""Tests of t2t-request as a process, against a fake server."""

import contextlib
import gzip
import json
import subprocess
import sys

import command
import fake_server
import pytest
from fake_server import PROTOCOLS, Model


@pytest.fixture(scope="module")
def model():
    return Model(token="s3cret")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return fake_server.certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def flags(model, certificate, tmp_path_factory):
    """Flags to connect to the model over TLS with a token, by protocol."""
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text("s3cret\n")
    with contextlib.ExitStack() as stack:
        yield {
            protocol: [
                f"--server={stack.enter_context(serving)}",
                f"--protocol={protocol}",
                "--model_name=upper",
                f"--tls_ca_file={certificate / 'cert.pem'}",
                f"--token_file={token}",
            ]
            for protocol in PROTOCOLS
            for serving in [fake_server.serving(protocol, model, certificate)]
        }


def test_both_protocols_write_the_same_output(flags, model, tmp_path):
    lines = [f"line {number}" for number in range(100)]
    lines[3:5] = ["", "long line ü\u2028."]
    with gzip.open(tmp_path / "in.gz", "wt", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))
    for protocol in PROTOCOLS:
        model.failures = ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]
        output = tmp_path / f"{protocol}.gz"
        process = command.stage(
            "request",
            *flags[protocol],
            f"--input={tmp_path / 'in.gz'}",
            f"--output={output}",
            "--rows_per_request=7",
            "--concurrent_requests=3",
        )
        text = gzip.decompress(output.read_bytes()).decode()
        assert text == "".join(f"{line.upper()}\n" for line in lines)
        assert process.stdout == ""
        assert process.stderr == (
            "1 line was longer than the model allows: cut and translated.\n"
        )
        assert not model.failures


def test_n_best_is_written_as_text_and_json(flags, model):
    model.requests.clear()
    arguments = (*flags["grpc"], "--n_best=9", "--model_version=5")
    process = command.stage("request", *arguments, stdin=b"a\n\nb")
    assert process.stdout.splitlines() == [
        "1\t-0.1000\tA",
        "1\t-0.7000\tA!",
        "2\t\t",
        "3\t-0.1000\tB",
        "3\t-0.7000\tB!",
    ]
    assert {(*request[:4],) for request in model.requests} == {
        ("upper", 5, None, "n_best")
    }
    model.requests.clear()
    process = command.stage(
        "request",
        *flags["rest"],
        "--n_best=9",
        "--version_label=stable",
        "--output_format=json",
        stdin="ü\n\n".encode(),
    )
    assert {(*request[:4],) for request in model.requests} == {
        ("upper", None, "stable", "n_best")
    }
    assert [json.loads(line) for line in process.stdout.splitlines()] == [
        {
            "source": "ü",
            "status": "ok",
            "hypotheses": [
                {"text": "Ü", "score": -0.1},
                {"text": "Ü!", "score": -0.7},
            ],
        },
        {"source": "", "status": "empty", "hypotheses": [{"text": "", "score": None}]},
    ]


def start_request(*arguments, environment=None):
    return subprocess.Popen(
        [sys.executable, "-m", "t2t_keras.pipelines.request", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_interactive_lines_are_translated_immediately(flags, protocol):
    with start_request(*flags[protocol]) as process:
        for line in (b"a\n", b"b c\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline() == line.upper()
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.stderr.read() == b""
        assert process.wait() == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_unreachable_server_is_an_error(protocol):
    (port,) = command.free_ports(1)
    arguments = [f"--server=localhost:{port}", "--model_name=m", "--retries=1"]
    with start_request(*arguments, f"--protocol={protocol}") as process:
        process.stdin.write(b"a\n")
        process.stdin.flush()
        # Its input is still open, and a thread in it waits for the next line.
        assert process.wait() == 1
        messages = process.stderr.read().decode()
    first, second = messages.splitlines()
    assert first.startswith(f"error: RequestError: localhost:{port}: UNAVAILABLE: ")
    assert "Check that a server of this protocol is running" in first
    assert "--verbosity=1" in second


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_invalid_utf8_is_reported_and_other_lines_are_translated(
    flags, protocol, tmp_path
):
    process = command.stage(
        "request", *flags[protocol], stdin=b"a\n\xff\nb\n", status=2
    )
    assert process.stdout == "A\n\nB\n"
    assert process.stderr == "error: standard input:2: invalid UTF-8: not translated.\n"
    with gzip.open(tmp_path / "in.gz", "wb") as file:
        file.write(b"a\n\xff\n")
    as_json = ["--output_format=json", f"--input={tmp_path}/in.gz"]
    process = command.stage("request", *flags[protocol], *as_json, status=2)
    entries = [json.loads(line) for line in process.stdout.splitlines()]
    assert [entry["status"] for entry in entries] == ["ok", "invalid_utf8"]
    assert entries[1]["source"] == "\ufffd"


def test_broken_model_is_reported_and_every_line_is_written(flags):
    process = command.stage("request", *flags["grpc"], stdin=b"a\nbroken\n", status=1)
    assert process.stdout == "A\n\n"
    assert process.stderr == (
        "error: The model is broken: it computes NaN or infinite numbers. Not "
        "translated: line 2.\n"
    )


def test_translations_before_an_error_are_written(flags, tmp_path):
    # A damaged file: its checksum and length are missing.
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"a\nb\n")[:-8])
    source = f"--input={tmp_path}/in.gz"
    process = command.stage("request", *flags["grpc"], source, status=2)
    assert process.stdout in ("A\nB\n", "")
    assert f"{tmp_path}/in.gz:" in process.stderr
    # An output file is complete or absent.
    output = f"--output={tmp_path}/out"
    process = command.stage("request", *flags["rest"], source, output, status=2)
    assert "damaged gzip file" in process.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.gz"]


@pytest.mark.parametrize(
    ("extra", "status", "message"),
    [
        (["--model_name=lower"], 1, "NOT_FOUND: There is no model lower"),
        (["--tls_ca_file=", "--tls"], 1, "UNAVAILABLE"),
        (["--model_version=1", "--version_label=a"], 2, "either a version or a label"),
        (["--server=localhost"], 2, "The server must be HOST:PORT"),
        (["--server=example.com:1", "--tls_ca_file="], 2, "sent unencrypted"),
        (["--tls_ca_file=/no/file"], 2, "/no/file holds no certificates"),
        (
            ["--tls_key=/no/file"],
            2,
            "A client certificate and its key must be given together",
        ),
        (["--token_file=/no/file"], 2, "--token_file=/no/file"),
        (["--model_name="], 2, "A model_name is required"),
        (["--server="], 2, "--server must be given"),
    ],
)
def test_errors_have_exit_status_and_message(flags, extra, status, message):
    process = command.stage(
        "request", *flags["grpc"], "--retries=0", *extra, stdin=b"a\n", status=status
    )
    assert message in process.stderr
    assert "s3cret" not in process.stderr
    assert process.stdout == ""


def test_token_is_read_from_the_environment(flags, monkeypatch):
    arguments = [flag for flag in flags["rest"] if "--token_file" not in flag]
    process = command.stage("request", *arguments, stdin=b"a\n", status=1)
    assert "UNAUTHENTICATED" in process.stderr
    monkeypatch.setenv("T2T_TOKEN", "s3cret")
    assert command.stage("request", *arguments, stdin=b"a\n").stdout == "A\n"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
