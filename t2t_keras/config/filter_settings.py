"""Names, presets and thresholds of the filters for training text."""

import dataclasses
from collections.abc import Sequence
from typing import Literal

from t2t_keras.config.config_base import Config, option
from t2t_keras.errors import UserError

HELD_OUT = "held_out"
"""The filter of pairs whose source or target also occurs in the dev or test split."""

DUPLICATES: dict[str, Literal["pair", "source", "target"]] = {
    "duplicate_pair": "pair",
    "duplicate_source": "source",
    "duplicate_target": "target",
}
"""The filters that keep the first of several pairs with the same text."""

TEXT_FILTERS = (
    "empty",
    "length",
    "length_ratio",
    "identical",
    "html_tag",
    "url",
    "long_word",
    "alphabet_ratio",
    "character_score",
    "non_zero_numerals",
    "terminal_punctuation",
    "repetition",
    "language_id",
)
"""The filters of single pairs, in the order in which they run. Most names are those of
OpusFilter."""

FILTER_NAMES = (*TEXT_FILTERS, HELD_OUT, *DUPLICATES)
"""All filters, in the order in which they run."""

_RECOMMENDED = tuple(
    name
    for name in FILTER_NAMES
    if name not in ("duplicate_source", "duplicate_target")
)
_BASIC = tuple(name for name in _RECOMMENDED if name != "language_id")

FILTER_PRESETS = {"none": (), "basic": _BASIC, "recommended": _RECOMMENDED}
"""Filters by the name of the preset. `basic` needs no optional package."""


def filter_names(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of filters in the order in which they run.

    Args:
        names: Names of filters, or the name of a preset alone.

    Raises:
        UserError: If a name is unknown, or a preset is combined with other names.
    """
    if len(names) == 1 and names[0] in FILTER_PRESETS:
        return FILTER_PRESETS[names[0]]
    for name in names:
        if name in FILTER_PRESETS:
            raise UserError(
                f"filters: {name} is a preset and stands alone. Received: "
                f"{','.join(names)}"
            )
        if name not in FILTER_NAMES:
            raise UserError(
                f"There is no filter {name!r}. Presets: {', '.join(FILTER_PRESETS)}. "
                f"Filters: {', '.join(FILTER_NAMES)}"
            )
    return tuple(name for name in FILTER_NAMES if name in names)


@dataclasses.dataclass(frozen=True)
class FilterSettings(Config):
    """Thresholds of the filters for training text.

    All fields are flags of `t2t-prepare`, with the same names.

    Raises:
        UserError: If a value has the wrong type or is out of range, or a minimum is
            greater than its maximum.
    """

    min_words: int = option(
        1, "Filter length: minimum number of words on either side.", minimum=0
    )
    max_words: int = option(
        200, "Filter length: maximum number of words on either side.", minimum=1
    )
    min_chars: int = option(
        1, "Filter length: minimum number of characters on either side.", minimum=0
    )
    max_chars: int = option(
        2000, "Filter length: maximum number of characters on either side.", minimum=1
    )
    max_word_ratio: float = option(
        3.0,
        "Filter length_ratio: maximum ratio of the lengths in words. 3 is added to both"
        " lengths first.",
        minimum=1,
    )
    max_char_ratio: float = option(
        3.0,
        "Filter length_ratio: maximum ratio of the lengths in characters. 15 is added "
        "to both lengths first.",
        minimum=1,
    )
    max_word_chars: int = option(
        40, "Filter long_word: maximum number of characters in a word.", minimum=1
    )
    max_url_share: float = option(
        0.5,
        "Filter url: maximum share of web and e-mail addresses in the characters of "
        "either side.",
        minimum=0,
        maximum=1,
    )
    min_alphabet_ratio: float = option(
        0.5,
        "Filter alphabet_ratio: minimum share of letters in the characters of either "
        "side, white space aside.",
        minimum=0,
        maximum=1,
    )
    min_script_share: float = option(
        0.5,
        "Filter character_score: minimum share of letters in the scripts of the "
        "language of each side. Han, kana and Hangul count twice.",
        minimum=0,
        maximum=1,
    )
    min_numerals_similarity: float = option(
        0.5,
        "Filter non_zero_numerals: minimum similarity of the digits 1 to 9 on both "
        "sides.",
        minimum=0,
        maximum=1,
    )
    terminal_punctuation_threshold: float = option(
        -2.0,
        "Filter terminal_punctuation: minimum score. The score is 0 for equal numbers "
        "of terminal punctuation marks and falls with their difference and with marks "
        "beyond one on each side.",
        maximum=0,
    )
    max_repetitions: int = option(
        3,
        "Filter repetition: maximum number of times that a word or phrase may occur in "
        "a row.",
        minimum=1,
    )
    min_language_confidence: float = option(
        0.05,
        "Filter language_id: minimum probability of the language of each side, divided "
        "by that of the most probable language.",
        minimum=0,
        maximum=1,
    )

    compare: str = option(
        "normalized",
        "How the filters held_out and duplicate_... compare text: normalized (letters "
        "and digits only, without regard to case) or exact (without regard to runs of "
        "white space).",
        choices=("normalized", "exact"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for unit in ("words", "chars"):
            low, high = getattr(self, f"min_{unit}"), getattr(self, f"max_{unit}")
            if low > high:
                raise UserError(
                    f"min_{unit} must be at most max_{unit}. Received: "
                    f"min_{unit}={low}, max_{unit}={high}"
                )
