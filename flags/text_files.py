"""Files of sentences to read and write."""

from absl import flags

INPUT = flags.DEFINE_string(
    "input", "-", "File of sentences, plain or .gz; - is standard input."
)
OUTPUT = flags.DEFINE_string(
    "output", "-", "File to write, compressed if it ends in .gz; - is standard output."
)
