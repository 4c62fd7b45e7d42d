"""Configures TensorFlow, oneDNN, gRPC and Python for a process.

This module sets all environment variables and thread settings of the project; a table
in docs/performance.md lists them with reasons. Importing `t2t_keras` sets none of them.
Every command calls `configure` when it starts. Users of the library call it before they
import TensorFlow::

    from t2t_keras import runtime

    runtime.configure()

    import tensorflow as tf

Variables that the user has set keep their values. Variables that configure a cluster
rather than speed (`TF_CONFIG`, `CUDA_VISIBLE_DEVICES`) are read where the distribution
strategy is created.
"""

import gc
import os
import sys

from t2t_keras.errors import UserError

PROCESSES = ("training", "decoding", "serving", "client")

_MEMORY_LIMIT = "TF_CPU_BFC_MEM_LIMIT_IN_MB"
_FROZEN_WEIGHTS = "TF_ONEDNN_ASSUME_FROZEN_WEIGHTS"

_LATER = {
    "decoding": {
        # oneDNN then rearranges the weights of a product with a bias only once, instead
        # of at each product.
        _FROZEN_WEIGHTS: "1",
    },
    "client": {
        # Hides gRPC's own log: its errors contain what matters.
        "GRPC_VERBOSITY": "NONE",
    },
}
"""Variables that are read after the import of TensorFlow, when first needed."""

_GARBAGE_THRESHOLD = 50_000


def configure(process: str = "training", concurrent: int | None = None) -> None:
    """Configures this process. Call it before TensorFlow is imported.

    Args:
        process: Kind of process: "training" (default; also for all other uses of the
            library), "decoding", which never changes weights, "serving" for a model
            server, or "client" for a client of one.
        concurrent: Number of batches or replicas that are computed concurrently; see
            `share_cores`. Default: TensorFlow's own number of threads.

    Raises:
        ValueError: If the kind of process is unknown.
        RuntimeError: If TensorFlow has already been imported.
    """
    if process not in PROCESSES:
        raise ValueError(
            f"process must be one of {', '.join(PROCESSES)}. Received: {process!r}"
        )
    missing = [name for name in _at_import() if name not in os.environ]
    if missing and "tensorflow" in sys.modules:
        raise RuntimeError(
            "t2t_keras.runtime.configure() must be called before TensorFlow is "
            f"imported. TensorFlow was imported without {', '.join(missing)}."
        )
    for name, value in environment(process).items():
        os.environ.setdefault(name, value)
    # Importing TensorFlow and tracing a model create millions of objects that stay.
    # Repeated garbage collection of them took a tenth of the start-up time.
    if 0 < gc.get_threshold()[0] < _GARBAGE_THRESHOLD:
        gc.set_threshold(_GARBAGE_THRESHOLD)
    if concurrent is not None:
        share_cores(concurrent)


def environment(process: str = "training") -> dict[str, str]:
    """Returns the variables that `configure` sets unless the user has set them.

    Args:
        process: Kind of process; see `configure`.
    """
    return {**_at_import(), **_LATER.get(process, {})}


def _at_import() -> dict[str, str]:
    """Returns the variables of every process, which TensorFlow reads at its import."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        # Users cannot act on the log of TensorFlow's C++ code.
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # By default, TensorFlow uses oneDNN only on processors with instructions for
        # neural networks. Its products are twice as fast on other processors too.
        "TF_ENABLE_ONEDNN_OPTS": "1",
        # Keeps the memory of large tensors. By default it returns to the operating
        # system, which clears its pages for the next tensor: up to 40% of the time of
        # a training step.
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        # Otherwise the limit of that allocator is 64 GiB, regardless of the machine.
        _MEMORY_LIMIT: str(memory >> 20),
    }


def assumes_frozen_weights() -> bool:
    """Returns whether oneDNN assumes that weights never change in this process."""
    # Parsed like in TensorFlow.
    return os.environ.get(_FROZEN_WEIGHTS, "").lower() in {"1", "true"}


def limit_tensors(size: int) -> None:
    """Limits the total memory of all tensors. Call it before the first tensor.

    A lower limit that the user has set in the environment is kept.

    Args:
        size: Maximum number of bytes; TensorFlow raises an error beyond it.

    Raises:
        UserError: If the limit in the environment is not a number.
    """
    limit = size >> 20
    given = os.environ.get(_MEMORY_LIMIT, str(limit))
    if not given.isdecimal():
        raise UserError(f"{_MEMORY_LIMIT} must be a number of MiB. Received: {given!r}")
    os.environ[_MEMORY_LIMIT] = str(min(limit, int(given)))


def usable_cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    # Not available on all systems.
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def share_cores(concurrent: int) -> None:
    """Divides the CPU cores among concurrent computations.

    TensorFlow has one thread pool for the operations of the whole process. A thread
    that divides an operation among the pool waits for it, so the pool needs one thread
    per core. With a pool of one thread, every computation runs in its own thread. That
    is faster if it keeps all cores busy, because the products of a batch are small.

    Call it before TensorFlow's first operation. A number of threads that was set before
    is kept, whether by `set_threads` or by the variable TF_NUM_INTRAOP_THREADS.

    Args:
        concurrent: Number of batches or replicas that are computed concurrently.
    """
    import tensorflow as tf

    is_set = tf.config.threading.get_intra_op_parallelism_threads() or os.environ.get(
        "TF_NUM_INTRAOP_THREADS"
    )
    if not is_set:
        cores = usable_cores()
        set_threads(intra_op=1 if concurrent >= cores else cores)


def set_threads(intra_op: int = 0, inter_op: int = 0) -> None:
    """Sets TensorFlow's numbers of threads. Call it before its first operation.

    Args:
        intra_op: Number of threads of the pool that all operations share. Default 0:
            unchanged.
        inter_op: Maximum number of concurrent operations. Default 0: unchanged.
    """
    import tensorflow as tf

    if intra_op:
        tf.config.threading.set_intra_op_parallelism_threads(intra_op)
    if inter_op:
        tf.config.threading.set_inter_op_parallelism_threads(inter_op)


def skip_graph_optimization() -> None:
    """Makes TensorFlow run graphs as traced, without optimizing them first.

    This is for interactive use: the first line is translated a second earlier, and
    later lines up to 8% slower in float32. Numbers may differ in the last bits.
    """
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
