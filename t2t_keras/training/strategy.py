"""Distribution strategies: one or several devices and machines (tf.distribute)."""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from t2t_keras import runtime
from t2t_keras.errors import UserError

STRATEGIES = ("auto", "one", "mirrored", "multi_worker", "tpu")


def make_strategy(
    strategy: str = "auto",
    devices: int = 0,
    workers: Sequence[str] = (),
    worker_index: int = 0,
    tpu: str = "",
) -> tf.distribute.Strategy:
    """Creates a strategy. Call it before TensorFlow initializes its devices.

    Args:
        strategy: "one" device; "mirrored", several devices of this machine;
            "multi_worker", several machines; "tpu"; or "auto" (the default):
            multi_worker if there are workers, mirrored if there are several devices,
            otherwise one.
        devices: Replicas in this process. Default 0: all visible GPUs, or one CPU.
            Without GPUs, the CPU is divided into this number of logical devices. With
            as many as there are cores, or more, each has one thread: TensorFlow's
            intra-op threads of the process are set to 1, unless set before.
        workers: host:port of every worker, including this one. Default: those of the
            environment variable TF_CONFIG.
        worker_index: Index of this worker in `workers`. Worker 0 is the chief, which
            reports, validates and writes.
        tpu: Name or address of the TPU. Default: the TPU of the environment.

    Raises:
        UserError: If the arguments contradict each other or do not match the machine.
    """
    if strategy not in STRATEGIES:
        raise UserError(f"strategy must be one of {STRATEGIES}. Received: {strategy!r}")
    if devices < 0:
        raise UserError(f"devices must be at least 0. Received: {devices}")
    cluster = _cluster(workers, worker_index)
    gpus = tf.config.list_physical_devices("GPU")
    if gpus and devices > len(gpus):
        raise UserError(
            f"devices must be at most {len(gpus)}, the number of GPUs of this machine. "
            f"Received: {devices}"
        )
    number = devices or max(1, len(gpus))
    if strategy == "auto":
        strategy = "multi_worker" if cluster else "mirrored" if number > 1 else "one"
    if strategy == "tpu":
        return _tpu_strategy(tpu)
    if strategy == "multi_worker":
        return _multi_worker_strategy(cluster, number, bool(gpus))
    if cluster:
        raise UserError(
            "With workers, strategy must be multi_worker or auto. "
            f"Received: {strategy!r}"
        )
    if strategy == "one":
        if devices > 1:
            raise UserError(
                f"devices must be 0 or 1 with strategy=one. Received: {devices}"
            )
        return tf.distribute.get_strategy()
    if not gpus:
        _divide_cpu(number)
    kind = "GPU" if gpus else "CPU"
    return tf.distribute.MirroredStrategy([f"{kind}:{i}" for i in range(number)])


def has_undetected_gpu(device: str = "/dev/nvidia0") -> bool:
    """Returns whether TensorFlow lacks the CUDA libraries for an existing NVIDIA GPU.

    GPUs hidden by CUDA_VISIBLE_DEVICES do not count.

    Args:
        device: The device file of the first GPU.
    """
    return (
        Path(device).exists()
        and "CUDA_VISIBLE_DEVICES" not in os.environ
        and not tf.config.list_physical_devices("GPU")
    )


def _cluster(workers: Sequence[str], worker_index: int) -> dict[str, Any] | None:
    """Returns the workers' addresses and this worker's index."""
    if workers:
        if not 0 <= worker_index < len(workers):
            raise UserError(
                f"worker_index must be from 0 to {len(workers) - 1}, the last of the "
                f"workers. Received: {worker_index}"
            )
        for address in workers:
            host, _, port = address.rpartition(":")
            if not host or not port.isdecimal():
                raise UserError(f"A worker must be host:port. Received: {address!r}")
        if len(set(workers)) < len(workers):
            raise UserError(
                f"workers must not repeat an address. Received: {list(workers)}"
            )
        return {"workers": list(workers), "index": worker_index}
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return None
    try:
        config = json.loads(text)
        if set(config["cluster"]) != {"worker"} or config["task"]["type"] != "worker":
            raise KeyError("jobs other than worker")
        workers = [str(address) for address in config["cluster"]["worker"]]
        worker_index = int(config["task"]["index"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            'TF_CONFIG must look like {"cluster": {"worker": ["host:port", ...]}, '
            f'"task": {{"type": "worker", "index": 0}}}} ({error!r}). Received: {text}'
        ) from error
    return _cluster(workers, worker_index)


def _divide_cpu(number: int) -> None:
    (cpu,) = tf.config.list_physical_devices("CPU")
    if len(tf.config.get_logical_device_configuration(cpu) or []) >= number:
        return
    try:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * number
        )
    except RuntimeError as error:
        raise ValueError(
            "The CPU can be divided only before TensorFlow uses it."
        ) from error
    # All logical devices share one thread pool.
    if number > 1:
        runtime.share_cores(number)


def _multi_worker_strategy(
    cluster: dict[str, Any] | None, number: int, has_gpus: bool
) -> tf.distribute.Strategy:
    if not cluster:
        raise UserError(
            "strategy=multi_worker needs the addresses of the workers: workers and "
            "worker_index, or TF_CONFIG."
        )
    if number > 1 and not has_gpus:
        raise UserError(
            "A worker without GPUs has one replica: start more workers instead. "
            f"Received: devices={number}"
        )
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": cluster["workers"]}),
        task_type="worker",
        task_id=cluster["index"],
        rpc_layer="grpc",
    )
    return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)


def _tpu_strategy(tpu: str) -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError) as error:
        raise UserError(f"No TPU {tpu!r} was found: {error}") from error
    return tf.distribute.TPUStrategy(resolver)


def worker_index(strategy: tf.distribute.Strategy) -> int:
    """Returns the index of this worker; 0 is the chief."""
    resolver = strategy.cluster_resolver
    return (resolver.task_id or 0) if resolver else 0


def worker_count(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of workers (processes)."""
    resolver = strategy.cluster_resolver
    return (
        max(1, len(resolver.cluster_spec().as_dict().get("worker", [])))
        if (resolver)
        else 1
    )


@contextlib.contextmanager
def report_lost_workers(model_dir: Path) -> Iterator[None]:
    """Turns TensorFlow's errors about a lost worker into one clear message.

    Args:
        model_dir: Directory of the last checkpoint.

    Raises:
        ConnectionError: If a worker is lost.
    """
    try:
        yield
    except (
        tf.errors.AbortedError,
        tf.errors.CancelledError,
        tf.errors.DeadlineExceededError,
        tf.errors.UnavailableError,
    ) as error:
        raise ConnectionError(
            "Another worker was lost, and this one cannot continue alone. Start all "
            "workers again with the same commands: they resume from the last "
            f"checkpoint in {model_dir}."
        ) from error
