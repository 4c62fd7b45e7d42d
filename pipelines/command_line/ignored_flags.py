"""Flags of tensorflow_model_server that t2t-serve accepts and ignores.

They let existing command lines run unchanged; the help of each says why it has no
effect. Flags that secure the server, such as those for encryption, are never ignored.
"""

from collections.abc import Iterator

from absl import flags

FLAGS = flags.FLAGS

_NO_THREADS = (
    "waiting requests hold no thread; --max_concurrent_requests limits requests"
)
_LOADING = "versions are loaded and unloaded in their own threads"
_RETRIES = "loading is retried after 2, 4, 8 and so on up to 60 seconds"
_ONE_RUNTIME = "t2t-serve has a single runtime for models"

_BOOLS = {
    "enable_grpc_healthcheck_service": "the health service is always enabled",
    "enable_model_warmup": "warm-up requests are always run",
    "enable_per_model_batching_parameters": "batching parameters apply to all models",
    "enable_profiler": "there is no profiler service",
    "enable_serialization_as_tensor_content": "responses always use the typed fields",
    "flush_filesystem_caches": "the operating system manages its caches",
    "prefer_tflite_model": _ONE_RUNTIME,
    "remove_unused_fields_from_bundle_metagraph": _ONE_RUNTIME,
    "skip_initialize_tpu": _ONE_RUNTIME,
    "xla_cpu_compilation_enabled": _ONE_RUNTIME,
    "xla_gpu_compilation_enabled": _ONE_RUNTIME,
}
_INTEGERS = {
    "grpc_max_threads": _NO_THREADS,
    "load_retry_interval_micros": _RETRIES,
    "max_num_load_retries": _RETRIES,
    "num_request_iterations_for_warmup": "each warm-up request is run once",
    "num_tflite_interpreters_per_pool": _ONE_RUNTIME,
    "num_tflite_pools": _ONE_RUNTIME,
    "num_unload_threads": _LOADING,
    "rest_api_num_threads": _NO_THREADS,
}
_STRINGS = {
    "mixed_precision": "a model computes in the precision it was exported with",
    "per_process_gpu_memory_fraction": "TensorFlow manages GPU memory",
    "platform_config_file": _ONE_RUNTIME,
    "saved_model_tags": 'the tag is always "serve"',
    "tensorflow_session_config_file": _ONE_RUNTIME,
    "thread_pool_factory_config_file": _ONE_RUNTIME,
}

for _name, _reason in _BOOLS.items():
    flags.DEFINE_bool(_name, None, f"Ignored: {_reason}.")
for _name, _reason in _INTEGERS.items():
    flags.DEFINE_integer(_name, None, f"Ignored: {_reason}.")
for _name, _reason in _STRINGS.items():
    flags.DEFINE_string(_name, None, f"Ignored: {_reason}.")


def ignored_flag_messages() -> Iterator[str]:
    """Yields a message for each ignored flag that is given."""
    for name, reason in {**_BOOLS, **_INTEGERS, **_STRINGS}.items():
        if FLAGS[name].present:
            yield f"--{name} is ignored: {reason}."
