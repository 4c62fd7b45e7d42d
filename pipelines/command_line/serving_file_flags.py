"""Models and settings of t2t-serve, from flags or TensorFlow Serving's text files.

Each function reads flags, and raises a `UserError` that names the flag or the file if
its value cannot be used.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.files import user_path

if TYPE_CHECKING:
    from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

    from t2t_keras.server.config_file import ConfigFile
    from t2t_keras.server.tls import ServerTls

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "model_base_path",
    None,
    "Directory that holds the version directories of the model. Default: the "
    "models of --model_config_file.",
)
flags.DEFINE_string(
    "model_config_file",
    None,
    "Text-format ModelServerConfig file, for several models. Default: "
    "--model_base_path.",
)
flags.DEFINE_float(
    "model_config_file_poll_wait_seconds",
    0.0,
    "Seconds between checks of --model_config_file for changes (0 = never check).",
    0,
)
flags.DEFINE_bool(
    "enable_batching",
    None,
    "Batch concurrent requests of every model. Correct only if each output row "
    "depends on the same input row alone. Default: only for versions that declare "
    "this, as those of t2t-export do.",
)
flags.DEFINE_string(
    "batching_parameters_file",
    None,
    "Text-format BatchingParameters file with values for --max_batch_size, "
    "--batch_timeout_micros, --max_enqueued_batches and --num_batch_threads. "
    "Default: those flags.",
)
flags.DEFINE_integer("max_batch_size", 64, "Maximum number of rows in a batch.", 1)
flags.DEFINE_integer(
    "batch_timeout_micros",
    0,
    "Maximum time to wait for a batch to fill up, in microseconds.",
    0,
)
flags.DEFINE_integer(
    "max_enqueued_batches", 100, "Maximum number of full batches in the queue.", 1
)
flags.DEFINE_integer(
    "num_batch_threads", 2, "Number of batches to run concurrently.", 1
)
flags.DEFINE_string(
    "monitoring_config_file",
    None,
    "Text-format MonitoringConfig file: whether to export Prometheus metrics, and "
    "at which path. Default: metrics at /monitoring/prometheus/metrics.",
)
flags.DEFINE_string(
    "ssl_config_file",
    None,
    "Text-format SSLConfig file. Encrypts gRPC only, as in TensorFlow Serving. "
    "Default: no encryption.",
)
flags.DEFINE_bool(
    "use_alts_credentials", False, "Not supported: the server refuses to start with it."
)


def read_models(
    report: Callable[[str], None],
) -> "tuple[ModelServerConfig, ConfigFile | None]":
    """Returns the models to serve, and their config file if there is one."""
    from t2t_keras.server.config_file import ConfigFile
    from t2t_keras.server.model_config import single_model_config

    if bool(FLAGS.model_base_path) == bool(FLAGS.model_config_file):
        raise UserError("Give either --model_base_path or --model_config_file.")
    if FLAGS.model_base_path:
        path = Path(FLAGS.model_base_path)
        with user_path(path, "read"):
            is_directory = path.is_dir()
        if not is_directory:
            raise UserError(f"--model_base_path: there is no directory {path}.")
        return single_model_config(FLAGS.model_name, FLAGS.model_base_path), None
    file = ConfigFile(FLAGS.model_config_file, report)
    return file.config, file


def read_batching_arguments(report: Callable[[str], None]) -> dict[str, int]:
    """Returns the arguments of `Batcher`, from flags or --batching_parameters_file."""
    from t2t_keras.server.serving_config_files import read_batching

    names = (
        *("max_batch_size", "batch_timeout_micros"),
        *("max_enqueued_batches", "num_batch_threads"),
    )
    chosen = {name: getattr(FLAGS, name) for name in names}
    if not FLAGS.batching_parameters_file:
        return chosen
    if FLAGS.enable_batching is False:
        raise UserError(
            "--batching_parameters_file needs --enable_batching. Received: "
            "--noenable_batching"
        )
    found, ignored = read_batching(FLAGS.batching_parameters_file)
    duplicates = [name for name in found if FLAGS[name].present]
    if duplicates:
        raise UserError(
            f"Set in {FLAGS.batching_parameters_file} and by flags: "
            f"{', '.join(duplicates)}. Remove one of the two."
        )
    for name in ignored:
        report(f"{FLAGS.batching_parameters_file}: {name} is ignored.")
    return {**chosen, **found}


def metrics_path() -> str | None:
    """Returns the REST path of the metrics, or None if they are disabled."""
    from t2t_keras.server.prometheus import PATH
    from t2t_keras.server.serving_config_files import read_metrics_path

    if not FLAGS.monitoring_config_file:
        return PATH
    return read_metrics_path(FLAGS.monitoring_config_file)


def grpc_tls(report: Callable[[str], None]) -> "ServerTls | None":
    """Returns the TLS settings for gRPC only, or None without --ssl_config_file."""
    from t2t_keras.server.serving_config_files import read_ssl

    if FLAGS.use_alts_credentials:
        raise UserError("--use_alts_credentials is not supported. Remove it.")
    if not FLAGS.ssl_config_file:
        return None
    if FLAGS.rest_api_port:
        report(
            "--ssl_config_file encrypts gRPC only; --tls_certificate encrypts REST too."
        )
    return read_ssl(FLAGS.ssl_config_file)
