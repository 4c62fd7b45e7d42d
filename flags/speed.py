"""How stages that translate make use of the processor."""

from absl import flags

MOST_CONCURRENT_BATCHES = 8
"""Unless more are asked for: a window of lines has not many more."""

flags.DEFINE_integer(
    "concurrent_batches",
    0,
    "Batches searched at once, which share the cores; 0: one a core, at most "
    f"{MOST_CONCURRENT_BATCHES}.",
    0,
)
flags.DEFINE_enum(
    "decode_precision",
    "float32",
    ["float32", "bfloat16", "float16"],
    "What the model computes in. Less than float32 is faster where the processor has "
    "instructions for it, and slower elsewhere.",
)
