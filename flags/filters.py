"""Flags of the filters for training text."""

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
define_with_defaults(FilterSettings, FilterSettings.flag_names(), __name__)


def filter_arguments() -> dict[str, Any]:
    """Returns the flags as arguments of `prepare`.

    Raises:
        UserError: If a name or a value is not allowed.
    """
    return {
        "filters": filter_names(FILTERS.value),
        "filter_settings": FilterSettings.from_dict(
            {name: FLAGS[name].value for name in FilterSettings.flag_names()}
        ),
        "user_filter": USER_FILTER.value,
    }
