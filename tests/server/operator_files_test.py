"""TensorFlow Serving's configuration files and flags have the same effect here."""

import sys

import command
import fake_server
import grpc
import pytest
import served
import tensorflow as tf
from arithmetic import write_arithmetic
from google.protobuf import text_encoding
from registries import WAIT, Log, add_version, factor, registry_of

from t2t_keras.server.config_file import ConfigFile
from t2t_keras.server.serving_config_files import (
    read_batching,
    read_metrics_path,
    read_ssl,
)

LABELS = """
model_version_policy {{ specific {{ versions: 1 versions: 2 }} }}
version_labels {{ key: "stable" value: {stable} }}
"""


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """Directory with versions that multiply by 2 and by 3."""
    path = tmp_path_factory.mktemp("versions")
    for number in (2, 3):
        write_arithmetic(path / str(number), number)
    return path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return [fake_server.certificate(tmp_path_factory.mktemp("tls")) for _ in range(2)]


def write(path, text):
    """Replaces a file atomically, as editors do."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)
    return path


def config(more="", **base_paths):
    models = (
        f'config {{ name: "{name}" base_path: "{path}" {more} }}'
        for name, path in base_paths.items()
    )
    return f"model_config_list {{ {' '.join(models)} }}"


def test_changed_model_config_file_takes_effect_at_run_time(versions, tmp_path):
    base, other_dir = tmp_path / "base", tmp_path / "other"
    add_version(versions, base, 1, of=2)
    add_version(versions, other_dir, 1, of=3)
    path = write(tmp_path / "models.config", config(m=base))
    log = Log()
    file = ConfigFile(path, log)
    with registry_of(file.config) as (registry, events):
        registry.loaded.result(WAIT)
        file.watch(registry, 0.02)
        write(path, "model_config_list { config { nmae: 'x' } }")
        log.wait_for("nmae")
        assert factor(registry, "m") == 2
        # The file may name base paths that clients must not.
        write(path, config(m=base, n=other_dir))
        events.wait_for("n: version 1 is available")
        assert (factor(registry, "m"), factor(registry, "n")) == (2, 3)
        write(path, config(n=other_dir))
        events.wait_for("m: version 1 is closed")
        assert registry.names == ["n"]
    assert log.count("nmae") == 1


def test_label_is_assigned_once_its_version_is_available(versions, tmp_path):
    base = tmp_path / "base"
    add_version(versions, base, 1, of=2)
    path = write(tmp_path / "models.config", config(LABELS.format(stable=1), m=base))
    log = Log()
    file = ConfigFile(path, log)
    with registry_of(file.config, labels_before_versions=True) as (registry, events):
        registry.loaded.result(WAIT)
        write(path, config(LABELS.format(stable=2), m=base))
        for _ in range(3):
            file.apply_changes(registry)
            events.wait_for("but not [2]")
        log.wait_for("The label 'stable' of m is for version 2")
        assert factor(registry, "m", "stable") == 2
        add_version(versions, base, 2, of=3)
        events.wait_for("m: version 2 is available")
        while factor(registry, "m", "stable") != 3:
            file.apply_changes(registry)
    assert log.count("The label 'stable'") == 1


def test_batching_parameters_are_read(tmp_path):
    path = tmp_path / "batching.config"
    path.write_text(
        "max_batch_size { value: 7 } batch_timeout_micros { value: 0 } "
        "allowed_batch_sizes: 7 enable_large_batch_splitting { value: true }"
    )
    assert read_batching(path) == (
        {"max_batch_size": 7, "batch_timeout_micros": 0},
        ["allowed_batch_sizes", "enable_large_batch_splitting"],
    )
    for text, message in (
        ("num_batch_threads { value: 0 }", "num_batch_threads must be at least 1"),
        ("max_batch_size: 7", "is not a valid BatchingParameters"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_batching(path)


def test_monitoring_config_is_read(tmp_path):
    path = tmp_path / "monitoring.config"
    for text, expected in (
        ("", None),
        ('prometheus_config { path: "/m" }', None),
        ("prometheus_config { enable: true }", "/monitoring/prometheus/metrics"),
        ('prometheus_config { enable: true path: "/m" }', "/m"),
    ):
        path.write_text(text)
        assert read_metrics_path(path) == expected
    path.write_text('prometheus_config { path: "m" }')
    with pytest.raises(ValueError, match="must start with a slash"):
        read_metrics_path(path)


def ssl_config(certificate, **more):
    fields = {
        "server_key": (certificate / "key.pem").read_text(),
        "server_cert": (certificate / "cert.pem").read_text(),
        **more,
    }
    return "".join(f"{name}: {quoted(value)}\n" for name, value in fields.items())


def quoted(value):
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{text_encoding.CEscape(value, as_utf8=False)}"'


def test_ssl_config_errors_do_not_show_the_key(certificates, tmp_path):
    certificate_dir, other_dir = certificates
    path = tmp_path / "ssl.config"
    for text, message in (
        ("server_key: SECRET", "line 1, column 13"),
        ('server_key: "SECRET" server_cert: "x"', "cannot be used"),
        ('server_key: "SECRET"', "server_cert and server_key are both required"),
        (
            ssl_config(certificate_dir, client_verify=True),
            "client_verify requires custom_ca",
        ),
        (
            ssl_config(certificate_dir, server_key=(other_dir / "key.pem").read_text()),
            "cannot be used",
        ),
        (
            ssl_config(certificate_dir, custom_ca="x", client_verify=True),
            "client certificate authority",
        ),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message) as raised:
            read_ssl(path)
        assert "SECRET" not in str(raised.value)
    assert "PRIVATE" not in repr(read_ssl(write(path, ssl_config(certificate_dir))))


def test_ssl_batching_and_monitoring_configs_take_effect(
    versions, certificates, tmp_path
):
    certificate_dir, other_dir = certificates
    authority = (other_dir / "cert.pem").read_text()
    arguments = [
        f"--model_base_path={versions}",
        "--enable_batching=true",
        "--rest_api_timeout_in_ms=60000",
        "--tensorflow_session_parallelism=1",
        f"--grpc_socket_path={tmp_path / 'socket'}",
    ]
    for flag, text in {
        "ssl_config_file": ssl_config(
            certificate_dir, custom_ca=authority, client_verify=True
        ),
        "monitoring_config_file": 'prometheus_config { enable: true path: "/m" }',
        "batching_parameters_file": "num_batch_threads { value: 1 }",
    }.items():
        arguments.append(f"--{flag}={write(tmp_path / flag, text)}")
    pair = [(other_dir / f"{name}.pem").read_bytes() for name in ("key", "cert")]
    root = (certificate_dir / "cert.pem").read_bytes()
    request = served.predict_request("default", x=[1.0])
    with served.server(*arguments) as running:
        # REST is not encrypted, as in TensorFlow Serving.
        assert running.get("/v1/models/default:predict", {"instances": [1]})[0] == 200
        assert running.get("/m")[0] == 200
        assert running.get("/monitoring/prometheus/metrics")[0] == 400
        credentials = grpc.ssl_channel_credentials(root, *pair)
        with running.channel(credentials) as channel:
            predict = served.prediction(channel).Predict
            assert predict(request, timeout=WAIT).outputs
        name = [("grpc.ssl_target_name_override", "localhost")]
        address = f"unix:{tmp_path / 'socket'}"
        with grpc.secure_channel(address, credentials, name) as channel:
            predict = served.prediction(channel).Predict
            assert predict(request, timeout=WAIT).outputs
        for wrong in (None, grpc.ssl_channel_credentials(root)):
            with running.channel(wrong) as channel:
                with pytest.raises(grpc.RpcError) as raised:
                    served.prediction(channel).Predict(request, timeout=WAIT)
                assert raised.value.code().name == "UNAVAILABLE"
        assert running.stop() == 0


def test_version_is_printed_as_by_tensorflow_model_server():
    process = command.stage("serve", "--version")
    assert f"TensorFlow: {tf.__version__}" in process.stdout


def test_invalid_operator_flags_are_rejected(versions, tmp_path):
    base = f"--model_base_path={versions}"
    batching = write(tmp_path / "batching", "max_batch_size { value: 7 }")
    for arguments, message in (
        (["--use_alts_credentials"], "--use_alts_credentials is not supported"),
        (["--ssl_config_file=/no/file"], "/no/file cannot be read"),
        (["--monitoring_config_file=/no/file"], "/no/file cannot be read"),
        (["--grpc_channel_arguments=a"], "NAME=VALUE. Received: 'a'"),
        (
            [f"--batching_parameters_file={batching}", "--noenable_batching"],
            "--batching_parameters_file needs --enable_batching",
        ),
        (
            [f"--batching_parameters_file={batching}", "--max_batch_size=8"],
            "and by flags: max_batch_size. Remove one of the two.",
        ),
        (["--rest_api_num_threads=8", "--port=0", "--rest_api_port=0"], "is ignored"),
    ):
        assert message in command.stage("serve", base, *arguments, status=2).stderr


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
