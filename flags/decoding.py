"""Flags of beam search, sampling and the weights to decode with."""

from collections.abc import Mapping
from typing import Any

from absl import flags

FLAGS = flags.FLAGS

CHECKPOINT = flags.DEFINE_list(
    "checkpoint",
    ["auto"],
    "Weights to use: averaged, ema, latest, the number of a step, or a path. auto "
    "uses the averaged weights unless training has continued since. Several, "
    "comma-separated, form an ensemble.",
)
flags.DEFINE_integer(
    "beam_size",
    4,
    "Number of beams; 1 is greedy search. A model trained with a preset that sets "
    "its own value uses that by default.",
    1,
)
flags.DEFINE_float(
    "length_penalty",
    0.6,
    "Exponent of the length penalty: 0 prefers short outputs, larger values prefer "
    "longer ones. A model trained with a preset that sets its own value uses that "
    "by default.",
    0,
)
flags.DEFINE_integer(
    "max_extra_length",
    50,
    "Maximum number of tokens by which an output may be longer than its input, "
    "unless --min_length or a forced prefix asks for more. A model trained with a "
    "preset that sets its own value uses that by default.",
    1,
)
flags.DEFINE_integer(
    "max_output_tokens",
    0,
    "Maximum number of tokens in the output, end token included (0 = no limit).",
    0,
)
flags.DEFINE_integer(
    "min_length", 0, "Minimum number of tokens in the output, end token excluded.", 0
)
flags.DEFINE_integer(
    "no_repeat_ngram", 0, "Block repeated n-grams of this size (0 = off).", 0
)
flags.DEFINE_bool(
    "sample",
    False,
    "Sample --beam_size translations from the model's distribution instead of "
    "searching for the most probable ones.",
)
flags.DEFINE_float(
    "temperature", 1.0, "Temperature for --sample: logits are divided by it."
)
flags.DEFINE_integer(
    "top_k", 0, "Number of most probable tokens that --sample draws from (0 = all).", 0
)
flags.DEFINE_float(
    "top_p",
    1.0,
    "Probability mass of the most probable tokens that --sample draws from (nucleus"
    " sampling; 1 = all tokens).",
)
flags.DEFINE_integer("sample_seed", 0, "Random seed for --sample.")
DECODE_BATCH_TOKENS = flags.DEFINE_integer(
    "decode_batch_tokens",
    2048,
    "Maximum number of source tokens in a batch, padding included.",
    1,
)


_OPTIONS = (
    "beam_size",
    "length_penalty",
    "max_extra_length",
    "max_output_tokens",
    "min_length",
    "no_repeat_ngram",
    "sample",
    "temperature",
    "top_k",
    "top_p",
    "sample_seed",
)


def search_options(defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the arguments of `SearchOptions` except `n_best`.

    Args:
        defaults: Values for flags that are not given, such as those that a model was
            trained with. Default: the defaults of the flags.
    """
    defaults = defaults or {}
    return {
        name: FLAGS[name].value
        if FLAGS[name].present
        else defaults.get(name, FLAGS[name].value)
        for name in _OPTIONS
    }
