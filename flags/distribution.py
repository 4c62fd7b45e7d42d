"""Flags of distributed training: devices and workers."""

from typing import Any

from absl import flags

FLAGS = flags.FLAGS

flags.DEFINE_enum(
    "strategy",
    "auto",
    ["auto", "one", "mirrored", "multi_worker", "tpu"],
    "Distribution strategy: one device, all devices of one machine (mirrored), "
    "several machines (multi_worker) or a TPU. auto decides by --workers, TF_CONFIG"
    " and the visible devices.",
)
flags.DEFINE_integer(
    "devices",
    0,
    "Number of replicas in this process (0 = all visible GPUs, or one CPU). Without"
    " GPUs, the replicas share the CPU cores, which can be faster for small models.",
    0,
)
flags.DEFINE_list(
    "workers",
    [],
    "Addresses of all workers, comma-separated, as host:port. Default: those of "
    "TF_CONFIG.",
)
flags.DEFINE_integer(
    "worker_index", 0, "Index of this worker in --workers; 0 is the chief.", 0
)
flags.DEFINE_string("tpu", "", "Name or address of the TPU.")


def strategy_arguments() -> dict[str, Any]:
    """Returns the flags as arguments of `make_strategy`."""
    names = ("strategy", "devices", "workers", "worker_index", "tpu")
    return {name: FLAGS[name].value for name in names}
