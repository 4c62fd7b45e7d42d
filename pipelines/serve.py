"""Serves SavedModels by TensorFlow Serving's protocol, over gRPC and REST.

t2t-serve --model_name=NAME --model_base_path=BASE
t2t-serve --model_config_file=FILE
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_keras.cores import pool_threads
from t2t_keras.flags import serving
from t2t_keras.pipelines import stage

if TYPE_CHECKING:
    from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

FLAGS = flags.FLAGS
_REPORTING = threading.Lock()

flags.DEFINE_string("model_base_path", None, "Directory of its versions.")
flags.DEFINE_string(
    "model_config_file", None, "Or a ModelServerConfig as text, for several models."
)
flags.DEFINE_string("host", "127.0.0.1", "Address to listen on: 0.0.0.0 for all.")
flags.DEFINE_integer("port", 8500, "Port of gRPC; 0: none.", 0, 65535)
flags.DEFINE_integer(
    "rest_api_port", 8501, "Port of REST and the page; 0: none.", 0, 65535
)
flags.DEFINE_float(
    "file_system_poll_wait_seconds",
    1.0,
    "How often to look for new versions; 0: once.",
    0,
)
flags.DEFINE_integer(
    "num_load_threads", 0, "Maximum number of versions loaded at once; 0: no limit.", 0
)
flags.DEFINE_bool(
    "allow_version_labels_for_unavailable_models",
    False,
    "Labels may be given to versions that are not loaded yet.",
)
flags.DEFINE_list(
    "reload_dirs",
    [],
    "Directories in which HandleReloadConfigRequest may name base paths, beside those "
    "of the models given here.",
)
flags.DEFINE_bool(
    "enable_batching",
    None,
    "Answer concurrent requests together, whatever the model: each row of its outputs "
    "must depend on the same row of its inputs alone. [by versions that say so, as "
    "t2t-export's do]",
)
flags.DEFINE_integer("max_batch_size", 64, "Rows of a batch.", 1)
flags.DEFINE_integer(
    "batch_timeout_micros", 0, "How long to wait for a batch to become full.", 0
)
flags.DEFINE_integer("max_enqueued_batches", 100, "Full batches that may wait.", 1)
flags.DEFINE_integer("num_batch_threads", 2, "Batches that run at once.", 1)
flags.DEFINE_integer(
    "tensorflow_intra_op_parallelism",
    0,
    "Threads that compute operations, such as products, for all batches; 0: the cores, "
    "or one where --num_batch_threads are as many, which then compute themselves.",
    0,
)
flags.DEFINE_integer(
    "tensorflow_inter_op_parallelism", 0, "Operations at once; 0: one a core.", 0
)
flags.DEFINE_integer("max_request_bytes", 16 << 20, "Of a request.", 1)
flags.DEFINE_integer("max_request_rows", 1024, "Of a request.", 1)
flags.DEFINE_integer(
    "max_concurrent_requests", 512, "Requests at once; more are refused.", 1
)
flags.DEFINE_float(
    "request_timeout_s", 60.0, "Seconds that a request may take at most.", 0.001
)
flags.DEFINE_float(
    "grace_s", 30.0, "Seconds that requests have to end in after SIGTERM.", 0
)
flags.DEFINE_string(
    "tls_client_ca", None, "PEM file of who signs the certificates clients must have."
)


def main() -> None:
    """Runs the stage."""
    import tensorflow as tf

    from t2t_keras.serving.admission import Admission
    from t2t_keras.serving.batching import Batcher
    from t2t_keras.serving.freed_memory import keep_for_good
    from t2t_keras.serving.metrics import Metrics
    from t2t_keras.serving.predictor import Predictor
    from t2t_keras.serving.registry import Registry
    from t2t_keras.serving.server import ServerOptions, serve

    tf.config.threading.set_intra_op_parallelism_threads(
        FLAGS.tensorflow_intra_op_parallelism or pool_threads(FLAGS.num_batch_threads)
    )
    tf.config.threading.set_inter_op_parallelism_threads(
        FLAGS.tensorflow_inter_op_parallelism
    )
    options = ServerOptions(
        host=FLAGS.host,
        port=FLAGS.port,
        rest_api_port=FLAGS.rest_api_port,
        max_request_bytes=FLAGS.max_request_bytes,
        request_timeout=FLAGS.request_timeout_s,
        grace=FLAGS.grace_s,
        tls_certificate=FLAGS.tls_certificate,
        tls_key=FLAGS.tls_key,
        tls_client_ca=FLAGS.tls_client_ca,
        token=serving.read_token(),
    )
    metrics = Metrics()
    registry = Registry(
        _config(),
        metrics,
        FLAGS.file_system_poll_wait_seconds,
        FLAGS.allow_version_labels_for_unavailable_models,
        FLAGS.reload_dirs,
        _report,
        FLAGS.enable_batching,
        FLAGS.num_load_threads,
    )
    batcher = Batcher(
        FLAGS.max_batch_size,
        FLAGS.batch_timeout_micros,
        FLAGS.max_enqueued_batches,
        FLAGS.num_batch_threads,
        metrics.observe_queue,
    )
    predictor = Predictor(
        registry,
        batcher,
        metrics,
        FLAGS.max_request_rows,
        Admission(
            FLAGS.max_concurrent_requests,
            max(1 << 30, 4 * FLAGS.max_request_bytes),
        ),
    )
    keep_for_good()
    asyncio.run(_serve(serve(registry, batcher, predictor, metrics, options, _report)))


async def _serve(serving: Coroutine[Any, Any, bool]) -> None:
    """Serves, and ends the process even where a computation cannot be interrupted."""
    if not await serving:
        _report("What could not be interrupted is given up.")
        # Python would wait for its threads, and TensorFlow for its own.
        os._exit(0)


def _report(line: str) -> None:
    """Reports whole lines, and does not mind if nobody listens any more."""
    with _REPORTING, contextlib.suppress(OSError):
        stage.report(line)


def _config() -> "ModelServerConfig":
    from google.protobuf import text_format
    from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

    from t2t_keras.serving.model_config import one_model

    if bool(FLAGS.model_base_path) == bool(FLAGS.model_config_file):
        raise ValueError("Either --model_base_path or --model_config_file is given.")
    if FLAGS.model_base_path:
        path = Path(FLAGS.model_base_path)
        if not path.is_dir():
            raise ValueError(f"There is no directory {path} (--model_base_path).")
        return one_model(FLAGS.model_name, FLAGS.model_base_path)
    path = Path(FLAGS.model_config_file)
    try:
        return text_format.Parse(path.read_text(encoding="utf-8"), ModelServerConfig())
    except (OSError, ValueError, text_format.ParseError) as error:
        raise ValueError(f"--model_config_file={path}: {error}") from error


def run() -> None:
    """Is the console script."""
    stage.run(main, __name__, [serving])


if __name__ == "__main__":
    run()
