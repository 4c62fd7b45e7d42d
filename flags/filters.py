"""Flags of the filters for training text."""

from pathlib import Path
from typing import Any

from absl import flags

from t2t_keras.config.filter_settings import (
    FILTER_NAMES,
    FILTER_PRESETS,
    FilterSettings,
    filter_names,
)
from t2t_keras.flags.from_config import define_with_defaults

FLAGS = flags.FLAGS

FILTERS = flags.DEFINE_list(
    "filters",
    ["none"],
    f"Filters for the training text: a preset ({', '.join(FILTER_PRESETS)}) or names, "
    f"comma-separated ({', '.join(FILTER_NAMES)}). They run in this order.",
)
USER_FILTER = flags.DEFINE_string(
    "user_filter",
    None,
    "Your own filter as module:function, which runs after --filters. function(source, "
    "target) returns whether to keep a pair. Default: no such filter.",
)
SCORES = flags.DEFINE_list(
    "train_scores",
    [],
    "Files with a score for each training pair, in the order of the training files: a "
    "number, or a line of t2t-score, whose score is the mean log-probability of its "
    "tokens.",
)
MIN_SCORE = flags.DEFINE_float(
    "min_score",
    None,
    "Minimum score in --train_scores; other pairs are removed. Default: none, but "
    "--train_scores needs it.",
)
define_with_defaults(FilterSettings, FilterSettings.flag_names(), __name__)


def cleaning_arguments() -> dict[str, Any]:
    """Returns the flags as arguments of `CleaningOptions`.

    Raises:
        UserError: If a name or a value is not allowed.
    """
    return {
        "filters": filter_names(FILTERS.value),
        "settings": FilterSettings.from_dict(
            {name: FLAGS[name].value for name in FilterSettings.flag_names()}
        ),
        "user_filter": USER_FILTER.value,
        "score_files": tuple(str(Path(path).absolute()) for path in SCORES.value),
        "min_score": MIN_SCORE.value,
    }
