"""Flags of the text files to read and write."""

from absl import flags

INPUT = flags.DEFINE_string(
    "input",
    "-",
    "Input file with one sentence per line, plain text or .gz (- = standard input).",
)
OUTPUT = flags.DEFINE_string(
    "output",
    "-",
    "Output file, compressed if its name ends in .gz (- = standard output).",
)
