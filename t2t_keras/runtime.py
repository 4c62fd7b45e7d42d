"""Configures TensorFlow, oneDNN, gRPC and Python for a process.

All environment variables and thread settings of the project are set here and nowhere
else; docs/performance.md says in a table which process gets which, and why. Importing
`t2t_keras` sets none of them. A command calls `configure` when it starts; who uses the
library from Python calls it first of all::

    from t2t_keras import runtime

    runtime.configure()

    import tensorflow as tf

What a user has set in the environment always stays as it is. Variables that configure
a cluster rather than speed (`TF_CONFIG`, `CUDA_VISIBLE_DEVICES`) are read where the
strategy is made.
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
        # oneDNN then brings the weights of a product with a bias into the order in
        # which it multiplies once, not at each product.
        _FROZEN_WEIGHTS: "1",
    },
    "client": {
        # gRPC's own log: what matters of it is in the message of the error.
        "GRPC_VERBOSITY": "NONE",
    },
}
"""Read after the import of TensorFlow, when first needed."""

_GARBAGE_THRESHOLD = 50_000


def configure(process: str = "training", concurrent: int | None = None) -> None:
    """Sets up this process, to be called before TensorFlow is imported.

    Args:
        process: What the process does: "training" (the default, also right for any
            other use of the library); "decoding", which never changes weights;
            "serving" for a model server; "client" for a client of one.
        concurrent: Number of batches or replicas that are computed at the same time,
            as of `share_cores`. Default: TensorFlow's own number of threads.

    Raises:
        ValueError: If there is no such process.
        RuntimeError: If TensorFlow is imported already, so that it is too late.
    """
    if process not in PROCESSES:
        raise ValueError(f"process is one of {PROCESSES}. Received: {process!r}")
    missing = [name for name in _at_import() if name not in os.environ]
    if missing and "tensorflow" in sys.modules:
        raise RuntimeError(
            "t2t_keras.runtime.configure() must be called before TensorFlow is "
            f"imported, which has not read {', '.join(missing)}."
        )
    for name, value in environment(process).items():
        os.environ.setdefault(name, value)
    # Importing TensorFlow and tracing a model make millions of objects that stay, and
    # looking for garbage among them again and again took a tenth of a start.
    if 0 < gc.get_threshold()[0] < _GARBAGE_THRESHOLD:
        gc.set_threshold(_GARBAGE_THRESHOLD)
    if concurrent is not None:
        share_cores(concurrent)


def environment(process: str = "training") -> dict[str, str]:
    """Returns the variables that `configure` sets where a user has not.

    Args:
        process: As of `configure`.
    """
    return {**_at_import(), **_LATER.get(process, {})}


def _at_import() -> dict[str, str]:
    """Returns what every process sets, since TensorFlow reads it at its import."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        # What its C++ code logs concerns no user.
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # oneDNN's products, which TensorFlow takes by default only on processors with
        # instructions for neural networks: twice as fast on others too.
        "TF_ENABLE_ONEDNN_OPTS": "1",
        # By default a large tensor's memory goes back to the system, which clears it
        # page by page for the next one: up to 40% of a training step's time.
        "TF_CPU_ALLOCATOR_USE_BFC": "true",
        # The limit of that allocator is 64 GiB otherwise, whatever the machine has.
        _MEMORY_LIMIT: str(memory >> 20),
    }


def assumes_frozen_weights() -> bool:
    """Returns whether oneDNN assumes that weights never change in this process."""
    # As TensorFlow reads it.
    return os.environ.get(_FROZEN_WEIGHTS, "").lower() in {"1", "true"}


def limit_tensors(size: int) -> None:
    """Limits the memory of all tensors together; to be called before the first tensor.

    A lower limit that a user has set in the environment stays.

    Args:
        size: Maximum number of bytes, beyond which TensorFlow refuses tensors.

    Raises:
        UserError: If the limit in the environment is not a number.
    """
    limit = size >> 20
    given = os.environ.get(_MEMORY_LIMIT, str(limit))
    if not given.isdecimal():
        raise UserError(f"{_MEMORY_LIMIT} is a number of MiB. Received: {given!r}")
    os.environ[_MEMORY_LIMIT] = str(min(limit, int(given)))


def usable_cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    # Not all systems tell.
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def share_cores(concurrent: int) -> None:
    """Shares the cores among what is computed at the same time.

    TensorFlow has one pool of threads for all products and other operations of the
    process, and whoever divides an operation among the pool waits for it, so it must
    have a thread for each core. A pool of one thread is not asked: everything computes
    in its own thread. Where that occupies all cores, it is faster, since the products
    of a batch are small.

    To be called before TensorFlow's first operation. A number of threads that was set
    before stays, by `set_threads` or by the environment's TF_NUM_INTRAOP_THREADS.

    Args:
        concurrent: Number of batches or replicas that are computed at the same time.
    """
    import tensorflow as tf

    is_set = tf.config.threading.get_intra_op_parallelism_threads() or os.environ.get(
        "TF_NUM_INTRAOP_THREADS"
    )
    if not is_set:
        cores = usable_cores()
        set_threads(intra_op=1 if concurrent >= cores else cores)


def set_threads(intra_op: int = 0, inter_op: int = 0) -> None:
    """Sets TensorFlow's numbers of threads; to be called before its first operation.

    Args:
        intra_op: Threads that compute operations, for all that runs at the same time.
            Default 0: as they are.
        inter_op: Maximum number of operations at the same time. Default 0: as it is.
    """
    import tensorflow as tf

    if intra_op:
        tf.config.threading.set_intra_op_parallelism_threads(intra_op)
    if inter_op:
        tf.config.threading.set_inter_op_parallelism_threads(inter_op)


def skip_graph_optimization() -> None:
    """Has TensorFlow run graphs as they were traced, without optimizing them first.

    The first line of a translation comes a second sooner, and all others up to 8% later
    in float32: for a user who waits for each line. Numbers may differ in the last bits.
    """
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
