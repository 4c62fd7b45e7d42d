"""Flags of beam search, sampling and the weights to decode with."""

from collections.abc import Mapping
from typing import Any

from absl import flags

from t2t_keras.decoding.options import SearchOptions
from t2t_keras.flags.from_config import define_with_defaults

FLAGS = flags.FLAGS

CHECKPOINT = flags.DEFINE_list(
    "checkpoint",
    ["auto"],
    "Weights to use: averaged, ema, imported, latest, the number of a step, or a "
    "path. auto uses the averaged weights unless training has continued since, and the "
    "weights of an imported model. Several, comma-separated, form an ensemble.",
)
# Stages with n-best lists define --n_best in `translation_output`.
_OPTIONS = [name for name in SearchOptions.flag_names() if name != "n_best"]
define_with_defaults(SearchOptions, _OPTIONS, __name__)
DECODE_BATCH_TOKENS = flags.DEFINE_integer(
    "decode_batch_tokens",
    2048,
    "Maximum number of source tokens in a batch, padding included.",
    1,
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
