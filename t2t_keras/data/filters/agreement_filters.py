"""Filters by what both sides of a pair should or should not have in common."""

import numpy as np

from t2t_keras.data.filters import characters
from t2t_keras.data.filters.text_filter import TextFilter
from t2t_keras.data.filters.texts import Texts

_SPELLED_OUT = 2
"""Numbers of up to so many digits are often written as words on one side."""


class IdenticalFilter(TextFilter):
    """Rejects pairs with the same text on both sides, apart from case and white space.

    Pairs with two empty sides are identical, too.
    """

    name = "identical"

    def _keep(self, sources: Texts, targets: Texts) -> np.ndarray:
        return np.fromiter(map(_differ, sources, targets), bool, len(sources))


def _differ(source: str, target: str) -> bool:
    return source.casefold().split() != target.casefold().split()


class NonZeroNumeralsFilter(TextFilter):
    """Rejects pairs with different digits.

    `NonZeroNumeralsFilter` of OpusFilter: the digits 1 to 9 of both sides are compared,
    of decimal digits in all scripts, without zeros, which formats add. Unlike there,
    the order of the digits does not matter, as in dates, and one or two digits may be
    missing on the other side, as in "2 cats" and "two cats".

    Args:
        min_numerals_similarity: Minimum similarity (Dice coefficient), from 0 to 1.
    """

    name = "non_zero_numerals"

    def __init__(self, min_numerals_similarity: float) -> None:
        self.min_numerals_similarity = min_numerals_similarity

    def _keep(self, sources: Texts, targets: Texts) -> np.ndarray:
        left, right = _digit_counts(sources), _digit_counts(targets)
        common = np.minimum(left, right).sum(1)
        total = left.sum(1) + right.sum(1)
        # Each digit is counted on both sides, or is missing on one.
        missing = total - 2 * common
        similar = 2 * common >= self.min_numerals_similarity * total
        return similar | (missing <= _SPELLED_OUT)


def _digit_counts(texts: Texts) -> np.ndarray:
    """Returns the number of each digit from 1 to 9 in each sentence, `[n, 9]` int64."""
    digits = characters.digit_values()[texts.code_points]
    found = np.flatnonzero(digits)
    rows = np.searchsorted(texts.ends, found, side="right")
    counts = np.bincount(rows * 9 + digits[found] - 1, minlength=9 * len(texts))
    return counts.reshape(-1, 9)


class TerminalPunctuationFilter(TextFilter):
    """Rejects pairs with different numbers of terminal punctuation marks.

    `TerminalPunctuationFilter` of OpusFilter: the penalty is the difference of their
    numbers, plus the marks beyond one on each side. The score is
    `-log(penalty + 1)`.

    Args:
        terminal_punctuation_threshold: Minimum score.
    """

    name = "terminal_punctuation"

    def __init__(self, terminal_punctuation_threshold: float) -> None:
        self.terminal_punctuation_threshold = terminal_punctuation_threshold

    def _keep(self, sources: Texts, targets: Texts) -> np.ndarray:
        left = sources.count_class(characters.TERMINAL)
        right = targets.count_class(characters.TERMINAL)
        penalty = np.abs(left - right)
        penalty += np.maximum(left - 1, 0) + np.maximum(right - 1, 0)
        return -np.log(penalty + 1.0) >= self.terminal_punctuation_threshold
