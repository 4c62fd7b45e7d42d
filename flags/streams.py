"""Files of sentences to read and write."""

from absl import flags

flags.DEFINE_string(
    "input", "-", "File of sentences, plain or .gz; - is standard input."
)
flags.DEFINE_string("output", "-", "File to write; - is standard output.")
