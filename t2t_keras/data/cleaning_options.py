"""What to remove from training text before it is tokenized."""

import dataclasses
from collections.abc import Callable
from typing import Any

from t2t_keras.config.filter_settings import (
    DUPLICATES,
    HELD_OUT,
    FilterSettings,
    filter_names,
)
from t2t_keras.data.filters import FilterReport, TextFilter, make_filters
from t2t_keras.errors import UserError


@dataclasses.dataclass(frozen=True)
class CleaningOptions:
    """What to remove from training text.

    Args:
        filters: Names of filters, or the name of a preset alone. Default none.
        settings: Thresholds of the filters. Default `FilterSettings()`.
        user_filter: A filter of the user as `module:function`. Default None.
        score_files: Files with a score for each training pair, in order: a number, or a
            line of t2t-score. Default none.
        min_score: Minimum score of a pair. The score of a line of t2t-score is the
            mean log-probability of its tokens. Default None.

    Raises:
        UserError: If a filter is unknown, or only one of `score_files` and `min_score`
            is given.
    """

    filters: tuple[str, ...] = ()
    settings: FilterSettings = dataclasses.field(default_factory=FilterSettings)
    user_filter: str | None = None
    score_files: tuple[str, ...] = ()
    min_score: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "filters", filter_names(self.filters))
        if bool(self.score_files) != (self.min_score is not None):
            raise UserError("--train_scores and --min_score need each other.")

    def __bool__(self) -> bool:
        return bool(self.filters or self.user_filter or self.score_files)

    @property
    def is_normalized(self) -> bool:
        """Whether duplicates and leaks are compared by letters and digits only."""
        return self.settings.compare == "normalized"

    @property
    def has_held_out(self) -> bool:
        """Whether to remove pairs that occur in dev or test."""
        return HELD_OUT in self.filters

    @property
    def duplicates(self) -> list[str]:
        """The filters of duplicates, keys of `DUPLICATES`."""
        return [name for name in DUPLICATES if name in self.filters]

    def make_filters(
        self, source_lang: str, target_lang: str, report: Callable[[str], None]
    ) -> list[TextFilter]:
        """Returns the filters of single pairs; see `filters.make_filters`."""
        languages = source_lang, target_lang
        return make_filters(
            self.filters, self.settings, *languages, self.user_filter, report
        )

    def description(self, removed: FilterReport) -> dict[str, Any]:
        """Returns the entry of a manifest.

        Args:
            removed: What was removed.
        """
        return {
            "names": [*self.filters],
            "settings": self.settings.to_dict(),
            "user_filter": self.user_filter,
            "score_files": [*self.score_files],
            "min_score": self.min_score,
            "report": removed.to_dict(),
        }
