"""How stages that translate make use of the processor."""

from absl import flags

flags.DEFINE_integer(
    "concurrent_batches",
    0,
    "Batches searched at once, which share the cores; 0: one a core, at most 8.",
    0,
)
flags.DEFINE_enum(
    "decode_precision",
    "float32",
    ["float32", "bfloat16", "float16"],
    "What the model computes in. Less than float32 is faster where the processor has "
    "instructions for it, and slower elsewhere.",
)
