"""Flags of the decoding speed: concurrent batches and precision."""

from absl import flags

MAX_CONCURRENT_BATCHES = 8
"""Default upper limit: a window of lines rarely has more batches."""

flags.DEFINE_integer(
    "concurrent_batches",
    0,
    "Number of batches to decode concurrently; they share the CPU cores (0 = one "
    "per core, at most 8).",
    0,
)
flags.DEFINE_enum(
    "decode_precision",
    "float32",
    ["float32", "bfloat16", "float16"],
    "Floating-point precision of decoding. Half precision is faster on processors "
    "with instructions for it and slower elsewhere.",
)
