"""Which devices and machines train together, and in what numbers."""

from typing import Any

from absl import flags

FLAGS = flags.FLAGS

flags.DEFINE_enum(
    "strategy",
    "auto",
    ["auto", "one", "mirrored", "multi_worker", "tpu"],
    "One device, several of this machine, several machines, or a TPU; auto looks at "
    "--workers, TF_CONFIG and the devices that there are.",
)
flags.DEFINE_integer(
    "devices",
    0,
    "Replicas in this process; 0: all visible GPUs, or one CPU. Without GPUs, so many "
    "share the CPU's cores, which can be faster for a small model.",
    0,
)
flags.DEFINE_list(
    "workers", [], "host:port of every worker, comma-separated [those of TF_CONFIG]."
)
flags.DEFINE_integer(
    "worker_index", 0, "This worker's place among --workers; 0 is the chief.", 0
)
flags.DEFINE_string("tpu", "", "Name or address of the TPU.")


def strategy_arguments() -> dict[str, Any]:
    """Returns the flags as arguments of `make_strategy`."""
    names = ("strategy", "devices", "workers", "worker_index", "tpu")
    return {name: FLAGS[name].value for name in names}
