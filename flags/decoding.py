"""How translations are searched for."""

from typing import Any

from absl import flags

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "checkpoint",
    "auto",
    "Weights to use: averaged, latest, a step's number, or a path; auto takes the "
    "averaged ones unless training went on after them.",
)
flags.DEFINE_integer("beam_size", 4, "Number of beams; 1 is greedy search.", 1)
flags.DEFINE_float("length_penalty", 0.6, "Exponent of the length penalty.", 0)
flags.DEFINE_integer(
    "max_extra_length", 50, "How many tokens longer than its input an output may be.", 1
)
flags.DEFINE_integer("decode_batch_tokens", 2048, "Input positions of a batch.", 1)


def search_arguments() -> dict[str, Any]:
    """Returns the flags as arguments of `Translator`."""
    return {
        "beam_size": FLAGS.beam_size,
        "length_penalty": FLAGS.length_penalty,
        "max_extra_length": FLAGS.max_extra_length,
        "batch_tokens": FLAGS.decode_batch_tokens,
    }
