"""The files in deploy/ are valid for TensorFlow Serving and consistent."""

import contextlib
import http.server
import re
import subprocess
import sys
import threading
from pathlib import Path

import command
import exported
import pytest
import served
import yaml
from google.protobuf import text_format
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from t2t_keras.server.serving_config_files import MESSAGES

DEPLOY = Path(__file__).parents[1] / "deploy"
CONFIGS = ("models.config", "batching.config", "monitoring.config")
MODEL = "translator"

# The flags used here of tensorflow/serving, tensorflow_serving/model_servers/main.cc.
FLAGS = {
    "port": int,
    "rest_api_port": int,
    "rest_api_num_threads": int,
    "rest_api_timeout_in_ms": int,
    "enable_batching": bool,
    "allow_version_labels_for_unavailable_models": bool,
    "batching_parameters_file": Path,
    "model_config_file": Path,
    "model_config_file_poll_wait_seconds": int,
    "file_system_poll_wait_seconds": int,
    "tensorflow_intra_op_parallelism": int,
    "tensorflow_inter_op_parallelism": int,
    "grpc_channel_arguments": str,
    "grpc_max_threads": int,
    "monitoring_config_file": Path,
    "enable_profiler": bool,
    "ssl_config_file": Path,
}


CLASSES = {**MESSAGES, "ModelServerConfig": ModelServerConfig}


def parsed(text, message):
    return text_format.Parse(text, CLASSES[message]())


def read(name):
    return (DEPLOY / name).read_text()


def batching():
    return parsed(read("batching.config"), "BatchingParameters")


def compose():
    return yaml.safe_load(read("compose.yaml"))["services"]


def manifests():
    """Returns the objects in kubernetes.yaml by kind."""
    documents = list(yaml.safe_load_all(read("kubernetes.yaml")))
    found = {document["kind"]: document for document in documents}
    assert len(found) == len(documents)
    return found


def pod():
    return manifests()["Deployment"]["spec"]["template"]["spec"]


def container():
    (found,) = pod()["containers"]
    return found


def flags(words):
    """Returns the flags of a command line by name; each occurs once."""
    pairs = [re.fullmatch(r"--(\w+)=(.+)", word).groups() for word in words]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def all_flags():
    return {
        "compose.yaml": flags(compose()["serving"]["command"]),
        "kubernetes.yaml": flags(container()["args"]),
    }


def the_model(config):
    (model,) = config.model_config_list.config
    assert model.name == MODEL
    assert model.base_path == f"/models/{MODEL}"
    assert model.model_platform == "tensorflow"
    return model


def test_newest_version_is_served():
    model = the_model(parsed(read("models.config"), "ModelServerConfig"))
    assert model.model_version_policy.latest.num_versions == 1
    assert not model.version_labels


def test_label_example_is_a_valid_config():
    _, _, example = read("models.config").partition("# model_config_list {\n")
    text = re.sub("(?m)^# ?", "", f"# model_config_list {{\n{example}")
    model = the_model(parsed(text, "ModelServerConfig"))
    versions = list(model.model_version_policy.specific.versions)
    assert dict(model.version_labels) == dict(
        zip(("stable", "canary"), versions, strict=True)
    )


def test_version_policy_in_readme_is_valid():
    (policy,) = re.findall(r"(?m)^model_version_policy .*$", read("README.md"))
    text = f"model_config_list {{ config {{ {policy} }} }}"
    (model,) = parsed(text, "ModelServerConfig").model_config_list.config
    assert list(model.model_version_policy.specific.versions) == [1]


def test_batching_matches_cpus_and_threads():
    parameters = batching()
    threads = parameters.num_batch_threads.value
    size = parameters.max_batch_size.value
    assert (size, parameters.batch_timeout_micros.value) == (64, 5000)
    assert parameters.max_enqueued_batches.value % threads == 0
    assert not parameters.allowed_batch_sizes
    assert not parameters.pad_variable_length_inputs
    assert compose()["serving"]["cpus"] == threads
    resources = container()["resources"]
    assert int(resources["limits"]["cpu"]) == threads
    assert resources["requests"] == resources["limits"]
    memory = compose()["serving"]["mem_limit"]
    assert resources["limits"]["memory"] == memory.replace("g", "Gi")
    for given in all_flags().values():
        assert int(given["tensorflow_inter_op_parallelism"]) == threads
        # One thread for each concurrent batch.
        assert int(given["tensorflow_intra_op_parallelism"]) == 1
        for name in ("grpc_max_threads", "rest_api_num_threads"):
            assert int(given[name]) == threads * size


def test_prometheus_scrapes_the_metrics_path():
    config = parsed(read("monitoring.config"), "MonitoringConfig").prometheus_config
    assert config.enable
    (job,) = yaml.safe_load(read("prometheus.yaml"))["scrape_configs"]
    assert job["metrics_path"] == config.path
    template = manifests()["Deployment"]["spec"]["template"]
    annotations = template["metadata"]["annotations"]
    assert annotations["prometheus.io/scrape"] == "true"
    assert annotations["prometheus.io/path"] == config.path
    assert f"http://localhost:8501{config.path}" in read("README.md")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_batchsize { value: 64 }", "BatchingParameters"),
        ("max_batch_size: 64", "BatchingParameters"),
        ("max_batch_size { value: 'many' }", "BatchingParameters"),
        ("prometheus_config { enabled: true }", "MonitoringConfig"),
        ("prometheus_config { path: 1 }", "MonitoringConfig"),
        ("model_config_list { config { labels: 1 } }", "ModelServerConfig"),
    ],
)
def test_unknown_fields_are_rejected(text, message):
    with pytest.raises(text_format.ParseError):
        parsed(text, message)


def test_config_map_contains_the_files():
    assert manifests()["ConfigMap"]["data"] == {name: read(name) for name in CONFIGS}


def test_flags_exist_and_have_the_right_type():
    for place, given in all_flags().items():
        for name, value in given.items():
            assert name in FLAGS, f"{place}: --{name}"
            if FLAGS[name] is int:
                assert int(value) > 0
            elif FLAGS[name] is bool:
                assert value in ("true", "false")
            elif FLAGS[name] is Path:
                assert value.startswith("/config/")
    for name in re.findall(r"`--(\w*\*?\w+)[=`]", read("README.md")):
        if "*" in name:
            assert any(re.fullmatch(name.replace("*", r"\w+"), flag) for flag in FLAGS)
        elif name not in ("wait", "version_label"):  # Docker's; ours: docs_test.py.
            assert name in FLAGS, f"README.md: --{name}"


def test_compose_and_kubernetes_use_the_same_flags():
    by_place = all_flags()
    one, many = by_place["compose.yaml"], by_place["kubernetes.yaml"]
    assert many.pop("grpc_channel_arguments")
    assert one == many
    assert compose()["serving"]["entrypoint"] == container()["command"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Directory with the content of /models."""
    root = tmp_path_factory.mktemp("models")
    (root / MODEL).mkdir()
    exported.export(root / MODEL / "1", *exported.toy())
    return root


@pytest.mark.parametrize("place", ["compose.yaml", "kubernetes.yaml"])
def test_t2t_serve_accepts_the_command_line(models, tmp_path, place):
    """Only paths and ports are changed."""
    for name in CONFIGS:
        text = read(name).replace('"/models/', f'"{models}/')
        (tmp_path / name).write_text(text)
    given = all_flags()[place]
    words = [
        f"--{name}={value.replace('/config/', f'{tmp_path}/')}"
        for name, value in given.items()
        if name not in ("port", "rest_api_port")  # Free ones are found by `served`.
    ]
    with served.server(*words) as running:
        body = {"instances": ["the 7"]}
        assert running.get(f"/v1/models/{MODEL}:predict", body)[0] == 200
        config = parsed(read("monitoring.config"), "MonitoringConfig").prometheus_config
        assert running.get(config.path)[0] == 200
        with running.channel() as channel:
            request = served.predict_request(MODEL, text=["the 7"])
            assert served.prediction(channel).Predict(request, timeout=60).outputs
        assert running.stop() == 0
        ignored = {
            name
            for name in given
            for line in running.lines
            if line and line.startswith(f"--{name} is ignored: ")
        }
    assert ignored == {"rest_api_num_threads", "grpc_max_threads", "enable_profiler"}
    assert any("thread_pool_name is ignored" in line for line in running.lines if line)


def test_compose_and_kubernetes_use_the_same_image():
    image = compose()["serving"]["image"]
    assert re.fullmatch(r"tensorflow/serving:\d+\.\d+\.\d+", image)
    assert container()["image"] == image
    assert f"`{image}`" in read("README.md")
    assert re.search(r":v\d+\.\d+\.\d+$", compose()["prometheus"]["image"])


def test_ports_are_consistent():
    for given in all_flags().values():
        assert (given["port"], given["rest_api_port"]) == ("8500", "8501")
    assert compose()["serving"]["ports"] == [
        "127.0.0.1:8500:8500",
        "127.0.0.1:8501:8501",
    ]
    assert all(
        port.startswith("127.0.0.1:") for port in compose()["prometheus"]["ports"]
    )
    of_container = {p["name"]: p["containerPort"] for p in container()["ports"]}
    assert of_container == {"grpc": 8500, "rest": 8501}
    service = manifests()["Service"]["spec"]
    assert {p["targetPort"]: p["port"] for p in service["ports"]} == of_container
    annotations = manifests()["Deployment"]["spec"]["template"]["metadata"][
        "annotations"
    ]
    assert annotations["prometheus.io/port"] == "8501"
    (job,) = yaml.safe_load(read("prometheus.yaml"))["scrape_configs"]
    assert [c["targets"] for c in job["static_configs"]] == [["serving:8501"]]
    readme = read("README.md")
    assert set(re.findall(r"--server=\w+:(\d+)", readme)) == {"8500"}
    assert set(re.findall(r"http://localhost:(\d+)", readme)) == {"8501"}


def test_paths_of_flags_are_mounted():
    mounts = {v["target"]: v for v in compose()["serving"]["volumes"]}
    assert all(mount["read_only"] for mount in mounts.values())
    assert mounts["/models"]["source"] == "./models"
    assert f"--export_dir=deploy/models/{MODEL}\n" in read("README.md")
    in_pod = {m["mountPath"]: m["name"] for m in container()["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    assert set(in_pod.values()) == set(volumes)
    assert (
        volumes[in_pod["/config"]]["configMap"]["name"]
        == (manifests()["ConfigMap"]["metadata"]["name"])
    )
    claim = manifests()["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes[in_pod["/models"]]["persistentVolumeClaim"] == {
        "claimName": claim,
        "readOnly": True,
    }
    assert f"`{claim}`" in read("README.md")
    writable = [m["name"] for m in container()["volumeMounts"] if "readOnly" not in m]
    assert [volumes[name] for name in writable] == [{"name": "tmp", "emptyDir": {}}]
    data = manifests()["ConfigMap"]["data"]
    for given in all_flags().values():
        named = {Path(v) for k, v in given.items() if FLAGS[k] is Path}
        assert {path.name for path in named} == set(CONFIGS)
        for path in named:
            assert (DEPLOY / mounts[str(path.parent)]["source"] / path.name).is_file()
            assert str(path.parent) in in_pod
            assert path.name in data
    (config,) = [v for v in compose()["prometheus"]["volumes"] if v["type"] == "bind"]
    assert config["target"] == "/etc/prometheus/prometheus.yml"
    assert config["read_only"]
    assert (DEPLOY / config["source"]).is_file()


def test_probes_use_existing_ports_and_paths():
    ports = {port["name"] for port in container()["ports"]}
    readiness = container()["readinessProbe"]["httpGet"]
    assert readiness == {"path": f"/v1/models/{MODEL}", "port": "rest"}
    assert readiness["port"] in ports
    # A missing model must not restart the process.
    for name in ("startupProbe", "livenessProbe"):
        assert "httpGet" not in container()[name]
        assert container()[name]["tcpSocket"]["port"] in ports
    startup = container()["startupProbe"]
    # The server itself retries five times, a minute apart.
    assert startup["periodSeconds"] * startup["failureThreshold"] > 2 * 6 * 60


def test_requests_finish_before_a_pod_stops():
    given = all_flags()["kubernetes.yaml"]
    name, age = given["grpc_channel_arguments"].split("=")
    assert name == "grpc.max_connection_age_ms"
    command, seconds = container()["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    # gRPC adds a jitter of 10% to the age.
    assert int(seconds) > 1.1 * int(age) / 1000
    request = int(given["rest_api_timeout_in_ms"]) / 1000
    assert pod()["terminationGracePeriodSeconds"] > int(seconds) + request
    assert compose()["serving"]["stop_grace_period"] == f"{request:.0f}s"
    assert "init" not in compose()["serving"]


def test_selectors_of_the_manifest_match():
    found = manifests()
    deployment = found["Deployment"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert found["Service"]["spec"]["selector"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    (spread,) = pod()["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels
    scaled = found["HorizontalPodAutoscaler"]["spec"]
    target = {k: found["Deployment"][k] for k in ("apiVersion", "kind")}
    target["name"] = found["Deployment"]["metadata"]["name"]
    assert scaled["scaleTargetRef"] == target
    assert scaled["minReplicas"] == 2
    assert "replicas" not in deployment
    assert not any("namespace" in document["metadata"] for document in found.values())


def test_containers_have_minimal_privileges():
    for service in compose().values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["cpus"]
        assert service["mem_limit"]
    assert compose()["prometheus"]["profiles"] == ["prometheus"]
    assert "profiles" not in compose()["serving"]
    security = container()["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod()["securityContext"]["runAsNonRoot"]
    user, _ = compose()["serving"]["user"].split(":")
    assert pod()["securityContext"]["runAsUser"] == int(user)


@contextlib.contextmanager
def fake_status_server(state):
    """Serves the status of a model with one version. Yields the port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = (
            "HTTP/1.1"  # Keeps the connection open until the client closes it.
        )

        def do_GET(self):
            known = self.path == f"/v1/models/{MODEL}"
            body = b'{"model_version_status": [{"version": "1", "state": "%s"}]}'
            body = body % state if known else b'{"error": "not AVAILABLE"}'
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def health(port):
    """Runs the health check's command with another port."""
    kind, *words = compose()["serving"]["healthcheck"]["test"]
    assert kind == "CMD"
    assert "$" not in words[-1]  # Compose would replace it.
    address = "/dev/tcp/127.0.0.1/8501 "
    assert address in words[-1]
    words[-1] = words[-1].replace(address, f"/dev/tcp/127.0.0.1/{port} ")
    return subprocess.run(
        words, timeout=command.PATIENCE, capture_output=True, check=False
    ).returncode


def test_health_check_detects_a_loaded_model():
    with fake_status_server(b"AVAILABLE") as port:
        assert health(port) == 0
    assert health(port) != 0  # Nothing listens there any more.
    with fake_status_server(b"LOADING") as port:
        assert health(port) != 0


def test_ssl_config_commands_include_file_contents(tmp_path):
    (commands,) = re.findall(r"(?s)```sh\n(.*?)```", read("README.md"))
    pems = {
        name: f"-----BEGIN {name}-----\nab+/cd==\n-----END {name}-----\n"
        for name in ("key", "cert")
    }
    for name, text in pems.items():
        (tmp_path / f"{name}.pem").write_text(text)
    subprocess.run(["sh", "-c", commands], cwd=tmp_path, check=True)
    path = tmp_path / "ssl.config"
    config = parsed(path.read_text(), "SSLConfig")
    assert (config.server_key, config.server_cert) == (pems["key"], pems["cert"])
    assert path.stat().st_mode & 0o077 == 0
    fields = {field.name for field in CLASSES["SSLConfig"].DESCRIPTOR.fields}
    assert fields <= set(re.findall(r"`(\w+)[`:]", read("README.md")))


def test_keys_and_models_are_ignored_by_git():
    ignored = read(".gitignore").split()
    assert {"/models/", "/ssl.config", "*.pem"} <= set(ignored)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
