"""The model server as a process: protocol, versions, limits, shutdown."""

import shutil
import ssl
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import command
import exported
import grpc
import pytest
import served
import tensorflow as tf
from arithmetic import write_arithmetic
from google.protobuf import text_format
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
)

from t2t_keras.runtime import usable_cores

SENTENCES = [*exported.LINES[:6], "", "no 7"]


@pytest.fixture(scope="module")
def toy():
    return exported.toy()


@pytest.fixture(scope="module")
def bases(toy, tmp_path_factory):
    """Directory with the models `words` (version 1) and `sums` (version 3)."""
    root = tmp_path_factory.mktemp("models")
    for name in ("words", "sums"):
        (root / name).mkdir()
    exported.export(root / "words" / "1", *toy)
    write_arithmetic(root / "sums" / "3", 2)
    return root


def config_of(root, labels):
    words = f'name: "words" base_path: "{root}/words" model_platform: "tensorflow"'
    sums = f'name: "sums" base_path: "{root}/sums" {labels}'
    return f"model_config_list {{ config {{ {words} }} config {{ {sums} }} }}"


@pytest.fixture(scope="module")
def server(bases, tmp_path_factory):
    """Server of both models."""
    config = tmp_path_factory.mktemp("config") / "models.config"
    config.write_text(config_of(bases, 'version_labels { key: "stable" value: 3 }'))
    with served.server(
        f"--model_config_file={config}",
        "--allow_version_labels_for_unavailable_models",
        "--max_request_bytes=100000",
        "--max_request_rows=50",
        "--max_concurrent_requests=2",
    ) as running:
        yield running


def code_of(call):
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return raised.value.code().name, raised.value.details()


def test_server_matches_translator(server, toy):
    expected = exported.translator(*toy).translate(SENTENCES)
    body = {"inputs": {"text": SENTENCES}}
    status, content = server.get("/v1/models/words:predict", body)
    assert status == 200, content
    assert content["outputs"]["translation"] == [best.text for best, *_ in expected]
    assert content["outputs"]["status"] == [best.status for best, *_ in expected]
    assert content["outputs"]["score"] == pytest.approx(
        [best.score or 0.0 for best, *_ in expected], rel=1e-4, abs=1e-6
    )
    _, rows = server.get("/v1/models/words:predict", {"instances": SENTENCES})
    texts = [row["translation"] for row in rows["predictions"]]
    assert texts == [best.text for best, *_ in expected]
    with server.channel() as channel:
        response = served.prediction(channel).Predict(
            served.predict_request("words", text=SENTENCES, outputs=["translation"]),
        )
    assert set(response.outputs) == {"translation"}
    translations = tf.make_ndarray(response.outputs["translation"]).tolist()
    assert [text.decode() for text in translations] == texts
    assert response.model_spec.version.value == 1


_THREADS = """
import sys
from absl import flags
from t2t_keras.pipelines import serve
flags.FLAGS(["serve", "--model_base_path=nowhere", *sys.argv[1:]])
try:
    serve.main()
except ValueError:
    import tensorflow.config.threading as given
    print(given.get_intra_op_parallelism_threads(),
          given.get_inter_op_parallelism_threads())
"""


@pytest.mark.parametrize(
    ("flags", "threads"),
    [
        (
            [
                "--tensorflow_intra_op_parallelism=3",
                "--tensorflow_inter_op_parallelism=5",
            ],
            ["3", "5"],
        ),
        # More concurrent batches than cores, and fewer.
        (["--num_batch_threads=9999"], ["1", "0"]),
        (["--num_batch_threads=1"], [str(usable_cores()), "0"]),
    ],
)
def test_threads_follow_flags_or_share_the_cores(flags, threads):
    # In a separate process: TensorFlow's threads are set once.
    child = [sys.executable, "-c", _THREADS, *flags]
    assert subprocess.check_output(child, text=True).split() == threads


def test_any_saved_model_is_served(server):
    url = "/v1/models/sums"
    assert server.get(f"{url}:predict", {"instances": [1.5, 2]}) == (
        200,
        {"predictions": [{"y": 3, "z": 1.5}, {"y": 4, "z": 2}]},
    )
    body = {"signature_name": "mean", "inputs": [1, 2, 6]}
    assert server.get(f"{url}:predict", body) == (200, {"outputs": 3})
    body = {"signature_name": "add", "inputs": {"a": [[1, 2]], "b": 3}}
    assert server.get(f"{url}:predict", body) == (200, {"outputs": [[4, 5]]})
    for selector in ("/versions/3", "/labels/stable"):
        assert server.get(f"{url}{selector}:predict", {"inputs": [1]})[0] == 200


def test_concurrent_requests_are_not_mixed_up(server):
    def ask(number):
        with server.channel() as channel:
            request = served.predict_request("sums", x=[float(number)] * (number % 4))
            response = served.prediction(channel).Predict(request)
        return tf.make_ndarray(response.outputs["y"]).tolist()

    with ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(ask, range(1, 60)))
    assert outputs == [[2.0 * n] * (n % 4) for n in range(1, 60)]


def test_metadata_and_status_over_both_protocols(server):
    status, content = server.get("/v1/models/sums/versions/3/metadata")
    signatures = content["metadata"]["signature_def"]["signature_def"]
    assert status == 200
    assert content["model_spec"]["version"] == "3"
    assert signatures["serving_default"]["inputs"]["x"]["dtype"] == "DT_FLOAT"
    assert server.get("/v1/models/sums") == (
        200,
        {
            "model_version_status": [
                {
                    "version": "3",
                    "state": "AVAILABLE",
                    "status": {"error_code": "OK", "error_message": ""},
                }
            ]
        },
    )
    with server.channel() as channel:
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            metadata_field=["signature_def"]
        )
        request.model_spec.name = "sums"
        response = served.prediction(channel).GetModelMetadata(request)
        unpacked = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(unpacked)
        assert set(unpacked.signature_def) >= set(signatures)
        request.metadata_field[0] = "weights"
        code, _ = code_of(lambda: served.prediction(channel).GetModelMetadata(request))
        assert code == "INVALID_ARGUMENT"
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = "words"
        response = served.model_service(channel).GetModelStatus(request)
        assert [s.version for s in response.model_version_status] == [1]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/models/no", 404),
        ("/v1/models/sums/versions/9", 404),
        ("/v1/models/sums/versions/99999999999999999999", 400),
        ("/v1/models/sums/labels/no", 400),
        ("/v1/models/..%2fsums", 404),
        ("/v1/models/%2fetc%2fpasswd", 404),
        ("/v1/models//etc/passwd", 400),
        ("/v1/models/sums/versions/../3", 400),
        ("/v1/models/sums/labels/..", 400),
        ("/v1/models/sums:predict", 400),
        ("/v2", 400),
    ],
)
def test_unknown_resources_return_the_right_status(server, path, status):
    actual_status, content = server.get(path)
    assert actual_status == status
    assert content["error"]


def test_invalid_grpc_requests_are_rejected(server):
    def send(*arguments, version=None, label=None, **inputs):
        request = served.predict_request(*arguments, **inputs)
        if version is not None:
            request.model_spec.version.value = version
        if label is not None:
            request.model_spec.version_label = label
        return code_of(lambda: served.prediction(channel).Predict(request, timeout=60))

    with server.channel() as channel:
        assert send()[0] == "INVALID_ARGUMENT"
        assert send("no", x=[1.0])[0] == "NOT_FOUND"
        assert send("sums", x=[1.0], version=-1)[0] == "NOT_FOUND"
        assert send("sums", x=[1.0], label="../stable")[0] == "INVALID_ARGUMENT"
        assert send("sums", "no", x=[1.0])[0] == "FAILED_PRECONDITION"
        code, message = send("sums", y=[1.0])
        assert code == "INVALID_ARGUMENT"
        assert "Missing but required: ['x']" in message
        assert "Received: int32" in send("sums", x=[1])[1]
        assert "must have shape [any]" in send("sums", x=[[1.0]])[1]
        assert "no output ['w']" in send("sums", x=[1.0], outputs=["w"])[1]


def test_limits_are_enforced(server):
    body = {"instances": [1] * 51}
    status, content = server.get("/v1/models/sums:predict", body)
    assert (status, content["error"]) == (
        400,
        "A request may have at most 50 rows. Received: 51",
    )
    body = {"instances": ["x" * 100_001]}
    assert server.get("/v1/models/words:predict", body)[0] == 413
    with server.channel() as channel:
        request = served.predict_request("words", text=["x" * 100_001])
        code, _ = code_of(lambda: served.prediction(channel).Predict(request))
        assert code == "RESOURCE_EXHAUSTED"
        request = served.predict_request("sums", x=[1.0])
        request.inputs["x"].tensor_shape.dim[0].size = 10**12
        code, message = code_of(lambda: served.prediction(channel).Predict(request))
        assert (code, "more than the maximum of" in message) == (
            "INVALID_ARGUMENT",
            True,
        )


def started_requests(running):
    """Returns the number of requests that batches have started so far."""
    text = running.get("/monitoring/prometheus/metrics")[1]
    name = ":tensorflow:serving:batching_session:queuing_latency_count"
    (value,) = [line.split()[1] for line in text.splitlines() if line.startswith(name)]
    return float(value)


def test_concurrent_requests_and_deadlines_are_limited(server, tmp_path):
    gates = [tmp_path / str(number) for number in range(2)]
    before = started_requests(server)
    small = served.predict_request("sums", x=[1.0])
    with server.channel() as channel:
        predict = served.prediction(channel).Predict
        waiting = []
        for gate in gates:
            request = served.predict_request("sums", "wait", path=str(gate))
            waiting.append(predict.future(request))
        while started_requests(server) < before + 2:
            assert not any(future.done() for future in waiting)
        assert code_of(lambda: predict(small))[0] == "RESOURCE_EXHAUSTED"
        assert server.get("/v1/models/sums:predict", {"instances": [1]})[0] == 429
        for gate in gates:
            gate.touch()
        for future in waiting:
            assert future.result(60)
        # One endless request per thread.
        endless = served.predict_request("sums", "wait", path=str(tmp_path / "never"))
        waiting = [predict.future(endless, timeout=1) for _ in range(2)]
        for future in waiting:
            assert code_of(future.result)[0] == "DEADLINE_EXCEEDED"
        status = 429  # The server may notice it a little later than the client.
        while status == 429:
            status, _ = server.get("/v1/models/sums:predict", {"instances": [1]})
        assert status == 200


def test_metrics_have_tensorflow_serving_names(server):
    server.get("/v1/models/sums:predict", {"instances": [1]})
    status, text = server.get("/monitoring/prometheus/metrics")
    assert status == 200
    for expected in (
        ':tensorflow:serving:request_count{model_name="sums",status="OK"} ',
        ":tensorflow:serving:request_latency_count"
        '{API="Predict",entrypoint="REST",model_name="sums"} ',
        ":tensorflow:serving:runtime_latency_count"
        '{API="Predict",model_name="sums",runtime="TF1"} ',
        ":tensorflow:serving:batching_session:queuing_latency_sum ",
        ":tensorflow:cc:saved_model:load_attempt_count{model_path=",
    ):
        assert expected in text
    assert 'model_name="no"' not in text


def test_health_and_page_are_served(server):
    with server.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "tensorflow.serving.PredictionService"):
            request = health_pb2.HealthCheckRequest(service=service)
            assert stub.Check(request).status == health_pb2.HealthCheckResponse.SERVING
    status, page = server.get("/")
    assert (status, "<html" in page) == (200, True)
    assert server.get("/v1/models") == (200, {"models": ["sums", "words"]})


def test_new_version_replaces_old_one_without_failed_requests(tmp_path):
    base = tmp_path / "sums"
    base.mkdir()
    write_arithmetic(base / "1", 2)
    failures, factors = [], set()
    stop = threading.Event()

    def ask():
        with running.channel() as channel:
            stub = served.prediction(channel)
            while not stop.is_set():
                try:
                    response = stub.Predict(served.predict_request("sums", x=[3.0]))
                    factor = tf.make_ndarray(response.outputs["y"])[0] / 3
                    factors.add((response.model_spec.version.value, float(factor)))
                except grpc.RpcError as error:
                    failures.append(error)

    arguments = ("--model_name=sums", f"--model_base_path={base}")
    with served.server(*arguments) as running, ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(ask) for _ in range(2)]
        try:
            write_arithmetic(base / "2", 5)
            running.wait_for("version 1 is being unloaded")
            # A broken version changes nothing.
            (base / "3").mkdir()
            (base / "3" / "saved_model.pb").write_bytes(b"broken")
            running.wait_for("version 3 cannot be loaded")
            assert running.get("/v1/models/sums:predict", {"instances": [1]}) == (
                200,
                {"predictions": [{"y": 5, "z": 1}]},
            )
        finally:
            stop.set()
        for future in asking:
            future.result()
        states = {
            entry["version"]: (entry["state"], entry["status"]["error_code"])
            for entry in running.get("/v1/models/sums")[1]["model_version_status"]
        }
        assert states["1"] == ("END", "OK")
        assert states["2"] == ("AVAILABLE", "OK")
        assert states["3"] == ("END", "FAILED_PRECONDITION")
        assert running.stop() == 0
    assert not failures
    assert factors == {(1, 2.0), (2, 5.0)}


def test_reload_replaces_configuration_within_allowed_directories(bases, tmp_path):
    root = tmp_path / "models"
    shutil.copytree(bases / "sums", root / "sums")
    shutil.copytree(bases / "sums", tmp_path / "elsewhere")
    write_arithmetic(root / "sums" / "4", 4)
    policy = "model_version_policy { specific { versions: 3 versions: 4 } }"
    config = (
        f'model_config_list {{ config {{ name: "sums" base_path: "{root}/sums" %s }} }}'
    )
    file = tmp_path / "models.config"
    file.write_text(config % policy)

    def reload(text):
        request = model_management_pb2.ReloadConfigRequest()
        text_format.Parse(text, request.config)
        return served.model_service(channel).HandleReloadConfigRequest(request)

    label = 'version_labels { key: "canary" value: %d }'
    with (
        served.server(f"--model_config_file={file}") as running,
        running.channel() as channel,
    ):
        reload(config % (policy + label % 4))
        url = "/v1/models/sums/labels/canary:predict"
        assert running.get(url, {"inputs": [1]})[1]["outputs"]["y"] == [4]
        code, _ = code_of(lambda: reload(config % (policy + label % 9)))
        assert code == "FAILED_PRECONDITION"
        code, message = code_of(
            lambda: reload(
                (config % "").replace(f"{root}/sums", f"{root}/../elsewhere")
            )
        )
        assert (code, "lies outside" in message) == ("PERMISSION_DENIED", True)
        for wrong in ("", "model_config_list { config { name: 'x' } }"):
            assert code_of(lambda text=wrong: reload(text))[0] in (
                "INVALID_ARGUMENT",
                "PERMISSION_DENIED",
            )
        assert running.get(url, {"inputs": [1]})[0] == 200
        reload((config % "").replace('"sums"', '"renamed"'))
        assert running.get("/v1/models/sums")[0] == 404
        code, message = code_of(
            lambda: reload((config % "").replace("/sums", "/sums/empty"))
        )
        assert (code, "['sums']" in message) == ("UNKNOWN", True)
        reload((config % "").replace('"sums"', '"renamed"'))
        assert running.get("/v1/models/renamed/versions/4:predict", {"inputs": [1]})[1][
            "outputs"
        ]["y"] == [4]


def test_sigterm_finishes_requests_and_exits_with_0(bases, tmp_path):
    gates = [tmp_path / "grpc", tmp_path / "rest"]
    base = bases / "sums"
    with (
        served.server("--model_name=sums", f"--model_base_path={base}") as running,
        running.channel() as channel,
        ThreadPoolExecutor(2) as pool,
    ):
        by_grpc = pool.submit(
            served.prediction(channel).Predict,
            served.predict_request("sums", "wait", path=str(gates[0])),
        )
        body = {"signature_name": "wait", "inputs": str(gates[1])}
        by_rest = pool.submit(running.get, "/v1/models/sums:predict", body)
        while started_requests(running) < 2:
            assert not by_grpc.done()
        running.process.terminate()
        running.wait_for("Stopping")
        for gate in gates:
            gate.touch()
        assert by_grpc.result(60).outputs["tries"]
        assert by_rest.result(60)[0] == 200
        assert running.process.wait(60) == 0
        with pytest.raises(OSError, match="refused"):
            running.get("/v1/models/sums")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed; it creates the certificate.")
    path = tmp_path_factory.mktemp("tls")
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


def test_tls_and_token_protect_both_protocols(bases, certificate, tmp_path):
    (tmp_path / "token").write_text("s3cret\n")
    trusted = (certificate / "cert.pem").read_bytes()
    with served.server(
        "--model_name=sums",
        f"--model_base_path={bases / 'sums'}",
        f"--tls_certificate={certificate / 'cert.pem'}",
        f"--tls_key={certificate / 'key.pem'}",
        f"--token_file={tmp_path / 'token'}",
        scheme="https",
    ) as running:
        context = ssl.create_default_context(cadata=trusted.decode())
        body = {"instances": [1]}
        url = "/v1/models/sums:predict"
        valid_headers = {"Authorization": "Bearer s3cret"}
        assert running.get(url, body, valid_headers, context=context)[0] == 200
        for invalid_headers in (
            {},
            {"Authorization": "Bearer no"},
            {"Authorization": "s3cret"},
        ):
            assert running.get(url, body, invalid_headers, context=context)[0] == 401
        assert running.get("/v1/models", None, {}, context=context)[0] == 401
        assert running.get("/", None, {}, context=context)[0] == 200
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            running.get(url, body, valid_headers)
        request = served.predict_request("sums", x=[1.0])
        credentials = grpc.ssl_channel_credentials(trusted)
        with running.channel(credentials) as channel:
            predict = served.prediction(channel).Predict
            metadata = [("authorization", "Bearer s3cret")]
            assert predict(request, metadata=metadata).outputs["y"]
            assert code_of(lambda: predict(request))[0] == "UNAUTHENTICATED"
            check = health_pb2_grpc.HealthStub(channel).Check
            assert check(health_pb2.HealthCheckRequest()).status == 1
        with running.channel() as channel:
            predict = served.prediction(channel).Predict
            assert code_of(lambda: predict(request, timeout=30))[0] == "UNAVAILABLE"
        assert running.stop() == 0


def test_invalid_flags_are_rejected(bases, certificate, tmp_path):
    ((port,), base) = command.free_ports(1), f"--model_base_path={bases / 'sums'}"
    with served.server("--model_name=sums", base) as running:
        process = command.stage(
            "serve", base, f"--port={running.port}", f"--rest_api_port={port}", status=2
        )
        assert "Cannot listen on" in process.stderr
    wrong = tmp_path / "wrong.config"
    wrong.write_text("model_config_list { config { nmae: 'x' } }")
    for arguments, message in (
        ([], "Give either --model_base_path or --model_config_file"),
        ([f"--model_base_path={tmp_path / 'no'}"], "there is no directory"),
        ([f"--model_config_file={wrong}"], "nmae"),
        ([base, f"--tls_key={certificate / 'key.pem'}"], "must be given together"),
        ([base, "--port=0", "--rest_api_port=0"], "nothing to listen on"),
        ([base, "--port=8765", "--rest_api_port=8765"], "must differ. Received: 8765"),
        ([base, "--max_memory_mb=9"], "--max_memory_mb must be at least"),
        ([base, f"--token_file={tmp_path / 'no'}"], "--token_file"),
    ):
        assert message in command.stage("serve", *arguments, status=2).stderr


def test_rest_port_lost_while_loading_stops_the_started_grpc_server(bases):
    ((port,), base) = command.free_ports(1), f"--model_base_path={bases / 'sums'}"
    # Without the check of equal ports, REST fails to listen once gRPC has started.
    code = """
from t2t_keras.server.server_options import ServerOptions
ServerOptions.__post_init__ = lambda self: None
from t2t_keras.pipelines import serve
serve.run()
"""
    process = subprocess.run(
        [
            *(sys.executable, "-c", code, "--model_name=sums", base),
            *(f"--port={port}", f"--rest_api_port={port}"),
        ],
        capture_output=True,
        text=True,
        timeout=command.PATIENCE,
    )
    assert process.returncode == 2, process.stderr
    assert f"Cannot listen on 127.0.0.1:{port}" in process.stderr.splitlines()[-1]
    assert "Traceback" not in process.stderr
    assert "Exception ignored" not in process.stderr


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
