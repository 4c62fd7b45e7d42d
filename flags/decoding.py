"""How translations are searched for."""

from collections.abc import Mapping
from typing import Any

from absl import flags

FLAGS = flags.FLAGS

CHECKPOINT = flags.DEFINE_list(
    "checkpoint",
    ["auto"],
    "Weights to use: averaged, ema, latest, a step's number, or a path; auto takes the "
    "averaged ones unless training went on after them. Several, comma-separated, are "
    "an ensemble.",
)
flags.DEFINE_integer(
    "beam_size",
    4,
    "Number of beams; 1 is greedy search. The default is that of the model's preset, "
    "where it was trained with one.",
    1,
)
flags.DEFINE_float(
    "length_penalty",
    0.6,
    "Exponent of the length penalty: 0 prefers short outputs, larger values longer "
    "ones. The default is that of the model's preset, as for --beam_size.",
    0,
)
flags.DEFINE_integer(
    "max_extra_length",
    50,
    "Maximum number of tokens by which an output may be longer than its input, unless "
    "--min_length or a forced prefix asks for more. The default is that of the model's "
    "preset, as for --beam_size.",
    1,
)
flags.DEFINE_integer(
    "max_output_tokens", 0, "The most tokens of an output, its end too; 0: no limit.", 0
)
flags.DEFINE_integer(
    "min_length", 0, "Minimum number of tokens in the output, without the end token.", 0
)
flags.DEFINE_integer(
    "no_repeat_ngram", 0, "No so many tokens come twice in an output; 0: no rule.", 0
)
flags.DEFINE_bool(
    "sample", False, "Draw --beam_size translations rather than find the likeliest."
)
flags.DEFINE_float("temperature", 1.0, "Of --sample: logits are divided by it.")
flags.DEFINE_integer("top_k", 0, "Of --sample: so many likeliest tokens; 0: all.", 0)
flags.DEFINE_float("top_p", 1.0, "Of --sample: likeliest tokens of this probability.")
flags.DEFINE_integer("sample_seed", 0, "Of --sample.")
DECODE_BATCH_TOKENS = flags.DEFINE_integer(
    "decode_batch_tokens", 2048, "Input positions of a batch.", 1
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
    """Returns the arguments of `SearchOptions`, `n_best` apart.

    Args:
        defaults: Values to use instead of those of flags that are not given, such as
            those that a model was trained with. Default none.
    """
    defaults = defaults or {}
    return {
        name: FLAGS[name].value
        if FLAGS[name].present
        else defaults.get(name, FLAGS[name].value)
        for name in _OPTIONS
    }
