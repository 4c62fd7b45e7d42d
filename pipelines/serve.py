"""Serves SavedModels over gRPC and REST with TensorFlow Serving's API.

t2t-serve --model_name=NAME --model_base_path=BASE
t2t-serve --model_config_file=FILE
"""

import asyncio
import contextlib
import os
import re
import sys
import threading
from collections.abc import Coroutine
from importlib.metadata import version
from typing import Any

from absl import flags

from t2t_keras import runtime, server_limits
from t2t_keras.errors import UserError
from t2t_keras.flags import server_access
from t2t_keras.pipelines import stage
from t2t_keras.pipelines.command_line import ignored_flags, serving_file_flags

FLAGS = flags.FLAGS
_REPORTING = threading.Lock()

flags.DEFINE_string(
    "host", "127.0.0.1", "Address to listen on; 0.0.0.0 listens on all interfaces."
)
flags.DEFINE_integer("port", 8500, "Port for gRPC (0 = no gRPC).", 0, 65535)
flags.DEFINE_string(
    "grpc_socket_path",
    None,
    "Path of a Unix socket for gRPC, in addition to --port. Default: no socket.",
)
flags.DEFINE_list(
    "grpc_channel_arguments",
    [],
    "Channel arguments of the gRPC server, comma-separated, such as "
    "grpc.max_connection_age_ms=30000.",
)
flags.DEFINE_integer(
    "rest_api_port", 8501, "Port for REST and the web page (0 = no REST).", 0, 65535
)
flags.DEFINE_bool(
    "enable_signature_method_name_check",
    False,
    "Accept Classify and Regress requests only for signatures with a matching "
    "method_name, which exports of TensorFlow 2 lack.",
)
flags.DEFINE_list(
    "allowed_hosts",
    [],
    "Host names, comma-separated, that REST requests may be addressed to, in "
    "addition to IP addresses and names without a dot: translate.example.com, "
    ".example.com for all subdomains, or * for any name.",
)
flags.DEFINE_bool(
    "rest_api_enable_cors_support",
    False,
    "Let web pages from any origin call the REST API.",
)
flags.DEFINE_float(
    "file_system_poll_wait_seconds",
    1.0,
    "Seconds between checks for new versions (0 = check once, at start-up).",
    0,
)
flags.DEFINE_integer(
    "num_load_threads",
    0,
    "Maximum number of versions to load concurrently (0 = no limit).",
    0,
)
flags.DEFINE_bool(
    "allow_version_labels_for_unavailable_models",
    False,
    "Allow labels for versions that are not loaded yet.",
)
flags.DEFINE_list(
    "reload_dirs",
    [],
    "Directories, comma-separated, that a HandleReloadConfigRequest may take base "
    "paths from, in addition to those of the configured models.",
)
flags.DEFINE_integer(
    "tensorflow_session_parallelism",
    0,
    "Default for --tensorflow_intra_op_parallelism and "
    "--tensorflow_inter_op_parallelism (0 = no default).",
)
flags.DEFINE_integer(
    "tensorflow_intra_op_parallelism",
    0,
    "Number of threads for computing within operations, shared by all batches (0 = "
    "one per core; or 1 if --num_batch_threads is at least the number of cores).",
    0,
)
flags.DEFINE_integer(
    "tensorflow_inter_op_parallelism",
    0,
    "Number of operations to run concurrently (0 = one per core).",
    0,
)
flags.DEFINE_integer(
    "max_request_bytes",
    server_limits.MAX_REQUEST_BYTES,
    "Maximum size of a request in bytes.",
    1,
)
flags.DEFINE_integer(
    "max_response_bytes",
    server_limits.MAX_RESPONSE_BYTES,
    "Maximum size of a response in bytes.",
    1,
)
flags.DEFINE_integer(
    "max_request_rows",
    server_limits.MAX_REQUEST_ROWS,
    "Maximum number of rows in a request.",
    1,
)
flags.DEFINE_integer(
    "max_concurrent_requests",
    server_limits.MAX_CONCURRENT_REQUESTS,
    "Maximum number of concurrent requests; further ones are refused.",
    1,
)
flags.DEFINE_integer(
    "max_memory_mb",
    None,
    "Maximum memory of the process in MiB, for models, requests and computation. "
    "Requests that would exceed it are refused. Default: 80% of the memory of the "
    "machine or container.",
    1,
)
flags.DEFINE_integer(
    "max_batch_length",
    1 << 15,
    "Maximum size of a batch, as its number of rows times the bytes of its longest "
    "row, for inputs of variable length. Larger requests are computed in several "
    "batches.",
    1,
)
flags.DEFINE_float(
    "request_timeout_s",
    server_limits.REQUEST_SECONDS,
    "Maximum time for a request, in seconds.",
    0.001,
)
flags.DEFINE_integer(
    "rest_api_timeout_in_ms",
    None,
    "Maximum time for a REST request, in milliseconds. Default: --request_timeout_s.",
    1,
)
flags.DEFINE_float(
    "grace_s",
    server_limits.GRACE_SECONDS,
    "Seconds that running requests get to finish after SIGTERM.",
    0,
)
flags.DEFINE_string(
    "tls_client_ca",
    None,
    "PEM file with the certificate authority that must have signed client "
    "certificates. Default: no client certificates.",
)


def main() -> None:
    """Runs the stage."""
    from t2t_keras.server.admission import Admission
    from t2t_keras.server.file_descriptor_limit import max_connections
    from t2t_keras.server.memory_budget import divide_memory
    from t2t_keras.server.memory_release import keep_for_good
    from t2t_keras.server.model_registry import Registry
    from t2t_keras.server.model_server import serve
    from t2t_keras.server.predictor import Predictor
    from t2t_keras.server.prometheus import Metrics
    from t2t_keras.server.request_batcher import Batcher
    from t2t_keras.server.server_options import ServerOptions

    memory = divide_memory(
        FLAGS.max_memory_mb, FLAGS.max_request_bytes, FLAGS.max_response_bytes
    )
    runtime.limit_tensors(memory.tensors)
    for line in ignored_flags.ignored_flag_messages():
        _report(line)
    batching = serving_file_flags.read_batching_arguments(_report)
    both = FLAGS.tensorflow_session_parallelism
    runtime.set_threads(
        intra_op=FLAGS.tensorflow_intra_op_parallelism or both,
        inter_op=FLAGS.tensorflow_inter_op_parallelism or both,
    )
    runtime.share_cores(batching["num_batch_threads"])
    options = ServerOptions(
        host=FLAGS.host,
        port=FLAGS.port,
        grpc_socket_path=FLAGS.grpc_socket_path,
        grpc_arguments=_channel_arguments(),
        rest_api_port=FLAGS.rest_api_port,
        allowed_hosts=FLAGS.allowed_hosts,
        allow_origins=FLAGS.rest_api_enable_cors_support,
        metrics_path=serving_file_flags.metrics_path(),
        max_request_bytes=FLAGS.max_request_bytes,
        max_response_bytes=FLAGS.max_response_bytes,
        max_connections=max_connections(),
        request_timeout=FLAGS.request_timeout_s,
        rest_timeout=(FLAGS.rest_api_timeout_in_ms or 0) / 1000 or None,
        checks_method_names=FLAGS.enable_signature_method_name_check,
        grace=FLAGS.grace_s,
        tls_certificate=FLAGS.tls_certificate,
        tls_key=FLAGS.tls_key,
        tls_client_ca=FLAGS.tls_client_ca,
        grpc_tls=serving_file_flags.grpc_tls(_report),
        token=server_access.read_token(),
    )
    metrics = Metrics()
    config, file = serving_file_flags.read_models(_report)
    registry = Registry(
        config,
        metrics,
        FLAGS.file_system_poll_wait_seconds,
        FLAGS.allow_version_labels_for_unavailable_models,
        FLAGS.reload_dirs,
        _report,
        FLAGS.enable_batching,
        FLAGS.num_load_threads,
    )
    batcher = Batcher(
        **batching,
        max_batch_length=FLAGS.max_batch_length,
        max_response_bytes=FLAGS.max_response_bytes,
        observe=metrics.observe_queue,
    )
    predictor = Predictor(
        registry,
        batcher,
        metrics,
        FLAGS.max_request_rows,
        Admission(
            FLAGS.max_concurrent_requests, memory.requests, memory.available_bytes
        ),
    )
    if file and FLAGS.model_config_file_poll_wait_seconds:
        file.watch(registry, FLAGS.model_config_file_poll_wait_seconds)
    keep_for_good()
    asyncio.run(_serve(serve(registry, batcher, predictor, metrics, options, _report)))


async def _serve(serving: Coroutine[Any, Any, bool]) -> None:
    """Serves until shutdown; exits even if a computation cannot be interrupted."""
    if not await serving:
        _report("Exiting without waiting for computations that cannot be interrupted.")
        # A normal exit would wait for the threads of Python and TensorFlow.
        os._exit(0)


def _report(line: str) -> None:
    """Reports a whole line; ignores errors if standard error is closed."""
    with _REPORTING, contextlib.suppress(OSError):
        stage.report(line)


def _channel_arguments() -> dict[str, int | str]:
    found: dict[str, int | str] = {}
    for given in FLAGS.grpc_channel_arguments:
        name, equals, value = given.partition("=")
        if not name or not equals:
            raise UserError(
                f"--grpc_channel_arguments must be NAME=VALUE. Received: {given!r}"
            )
        # gRPC accepts 32-bit integers and strings.
        is_number = re.fullmatch(r"-?\d{1,10}", value) and abs(int(value)) < 1 << 31
        found[name] = int(value) if is_number else value
    return found


def run() -> None:
    """Console entry point."""
    if "--version" in sys.argv[1:]:
        # Not a flag: t2t-export defines --version with another meaning.
        print(f"t2t-keras: {version('t2t-keras')}\nTensorFlow: {version('tensorflow')}")
        sys.exit()
    stage.run(main, __name__, [server_access, serving_file_flags], process="serving")


if __name__ == "__main__":
    run()
