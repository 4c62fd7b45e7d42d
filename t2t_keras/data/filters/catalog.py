"""Creates filters by name and applies them in order."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from t2t_keras.config.filter_settings import (
    TEXT_FILTERS,
    FilterSettings,
    filter_names,
)
from t2t_keras.data.filters import (
    agreement_filters,
    character_filters,
    length_filters,
    markup_filters,
)
from t2t_keras.data.filters.language_id import LanguageIdFilter, supported_language
from t2t_keras.data.filters.repetition import RepetitionFilter
from t2t_keras.data.filters.report import FilterReport
from t2t_keras.data.filters.scripts import expected_scripts
from t2t_keras.data.filters.text_filter import TextFilter
from t2t_keras.data.filters.texts import Texts
from t2t_keras.data.filters.user_filter import UserFilter

_MAX_PAIRS = 4096
_MAX_CHARS = 1_000_000
"""Limits of a chunk: long enough for NumPy, small enough for memory."""

_STALE_SHARE = 0.25


def make_filters(
    names: Sequence[str],
    settings: FilterSettings,
    source_lang: str,
    target_lang: str,
    user_filter: str | None = None,
    report: Callable[[str], None] | None = None,
) -> list[TextFilter]:
    """Creates the filters of single pairs, in the order in which they run.

    Args:
        names: Names of filters, or the name of a preset alone; see `filter_names`.
        settings: Thresholds.
        source_lang: Code of the source language.
        target_lang: Code of the target language.
        user_filter: A user's filter as `module:function`, which runs last. Default
            None.
        report: Called with a line for each filter that does not apply to a language.
            Default None.

    Returns:
        The filters, which can be pickled.

    Raises:
        UserError: If a name is unknown, a package is missing, or the user's filter
            cannot be imported.
    """
    languages = {"source": source_lang, "target": target_lang}
    filters = [
        created
        for name in filter_names(tuple(names))
        if name in TEXT_FILTERS
        and (created := _create(name, settings, languages, report or (lambda _: None)))
    ]
    return [*filters, UserFilter(user_filter)] if user_filter else filters


def _create(
    name: str,
    settings: FilterSettings,
    languages: dict[str, str],
    report: Callable[[str], None],
) -> TextFilter | None:
    s = settings
    if name == "character_score":
        scripts = _of_known(name, "script", languages, expected_scripts, report)
        if not any(scripts.values()):
            return None
        return character_filters.CharacterScoreFilter(
            scripts["source"], scripts["target"], s.min_script_share
        )
    if name == "language_id":
        known = _of_known(name, "model", languages, supported_language, report)
        if not any(known.values()):
            return None
        return LanguageIdFilter(
            known["source"], known["target"], s.min_language_confidence
        )
    return {
        "empty": length_filters.EmptyFilter,
        "length": lambda: length_filters.LengthFilter(
            s.min_words, s.max_words, s.min_chars, s.max_chars
        ),
        "length_ratio": lambda: length_filters.LengthRatioFilter(
            s.max_word_ratio, s.max_char_ratio
        ),
        "identical": agreement_filters.IdenticalFilter,
        "long_word": lambda: length_filters.LongWordFilter(s.max_word_chars),
        "html_tag": markup_filters.HtmlTagFilter,
        "url": lambda: markup_filters.UrlFilter(s.max_url_share),
        "alphabet_ratio": lambda: character_filters.AlphabetRatioFilter(
            s.min_alphabet_ratio
        ),
        "non_zero_numerals": lambda: agreement_filters.NonZeroNumeralsFilter(
            s.min_numerals_similarity
        ),
        "terminal_punctuation": lambda: agreement_filters.TerminalPunctuationFilter(
            s.terminal_punctuation_threshold
        ),
        "repetition": lambda: RepetitionFilter(s.max_repetitions),
    }[name]()


def _of_known(
    name: str,
    known: str,
    languages: dict[str, str],
    find: Callable[[str], Any],
    report: Callable[[str], None],
) -> dict[str, Any]:
    """Returns what a filter needs for the language of each side, None if unknown."""
    found = {side: find(language) for side, language in languages.items()}
    for side, value in found.items():
        if value is None:
            report(
                f"The filter {name} does not check the {side} side: it has no {known} "
                f"for the language {languages[side]!r}."
            )
    return found


def apply_filters(
    filters: Sequence[TextFilter],
    sources: Sequence[str],
    targets: Sequence[str],
    first: int = 0,
    max_examples: int = 3,
) -> tuple[np.ndarray, FilterReport]:
    """Applies filters in order and counts the rejected pairs.

    A pair counts for the first filter that rejects it. The result does not depend on
    how a corpus is cut into calls.

    Args:
        filters: The filters, from `make_filters`.
        sources: Sources of any number of pairs.
        targets: Targets of the same pairs.
        first: Number of the first pair in the corpus, for examples. Default 0.
        max_examples: Maximum number of examples of each filter. Default 3.

    Returns:
        Which pairs to keep, `[n]` bool, and the report.

    Raises:
        UserError: If a user's filter fails.
    """
    report = FilterReport(
        pairs=len(sources),
        removed={text_filter.name: 0 for text_filter in filters},
        max_examples=max_examples,
    )
    keep = np.ones(len(sources), bool)
    for start, end in _chunks(sources, targets):
        chunk = Texts(sources[start:end]), Texts(targets[start:end])
        keep[start:end] = _apply_to_chunk(filters, *chunk, report, first + start)
    return keep, report


def _apply_to_chunk(
    filters: Sequence[TextFilter],
    sources: Texts,
    targets: Texts,
    report: FilterReport,
    first: int,
) -> np.ndarray:
    keep = np.ones(len(sources), bool)
    pairs, left = (sources, targets), np.arange(len(sources))
    for text_filter in filters:
        # Leaving out rejected pairs loses what Texts has computed. It pays off for slow
        # filters and for long text.
        kept = keep[left]
        chars = pairs[0].lengths + pairs[1].lengths
        if not kept.all() and (
            text_filter.per_pair or chars[~kept].sum() > _STALE_SHARE * chars.sum()
        ):
            pairs, left = (pairs[0].select(kept), pairs[1].select(kept)), left[kept]
        rejected = left[~text_filter.keep(*pairs)]
        removed = rejected[keep[rejected]]
        report.record(text_filter.name, removed, sources, targets, first)
        keep[removed] = False
    return keep


def _chunks(
    sources: Sequence[str], targets: Sequence[str]
) -> Iterator[tuple[int, int]]:
    """Yields the ranges of chunks with a limited number of pairs and characters."""
    start = chars = 0
    for end in range(len(sources)):
        size = len(sources[end]) + len(targets[end])
        if end - start == _MAX_PAIRS or (end > start and chars + size > _MAX_CHARS):
            yield start, end
            start, chars = end, 0
        chars += size
    if len(sources):
        yield start, len(sources)
