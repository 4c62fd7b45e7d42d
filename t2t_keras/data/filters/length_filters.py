"""Filters by length."""

import numpy as np

from t2t_keras.data.filters.text_filter import SideFilter, TextFilter
from t2t_keras.data.filters.texts import Texts

_ADDED_WORDS = 3
_ADDED_CHARS = 15
"""Added to both lengths, since the ratio varies more for short sentences."""


class EmptyFilter(SideFilter):
    """Rejects pairs with a side that is empty or only white space."""

    name = "empty"

    def _keep_side(self, texts: Texts) -> np.ndarray:
        # A sentence of white space is falsy once stripped.
        return np.fromiter(map(bool, map(str.strip, texts)), bool, len(texts))


class LengthFilter(SideFilter):
    """Rejects pairs with a side that is too short or too long.

    `LengthFilter` of OpusFilter, in words and in characters.

    Args:
        min_words: Minimum number of words; see `Texts`.
        max_words: Maximum number of words.
        min_chars: Minimum number of characters, white space included.
        max_chars: Maximum number of characters.
    """

    name = "length"

    def __init__(
        self, min_words: int, max_words: int, min_chars: int, max_chars: int
    ) -> None:
        self.min_words, self.max_words = min_words, max_words
        self.min_chars, self.max_chars = min_chars, max_chars

    def _keep_side(self, texts: Texts) -> np.ndarray:
        chars = texts.lengths
        keep = (chars >= self.min_chars) & (chars <= self.max_chars)
        if not keep.all():
            # Count no words in lines of megabytes.
            texts = texts.select(keep)
        words = texts.words
        keep[keep] = (words >= self.min_words) & (words <= self.max_words)
        return keep


class LengthRatioFilter(TextFilter):
    """Rejects pairs with sides of very different lengths.

    `LengthRatioFilter` of OpusFilter, in words and in characters. Wide characters of
    East Asia (Han, kana, Hangul) count twice. 3 is added to both lengths in words and
    15 to both lengths in characters, since the ratio varies more for short sentences.

    Args:
        max_word_ratio: Maximum ratio of the longer to the shorter side in words.
        max_char_ratio: Maximum ratio of the longer to the shorter side in characters.
    """

    name = "length_ratio"

    def __init__(self, max_word_ratio: float, max_char_ratio: float) -> None:
        self.max_word_ratio, self.max_char_ratio = max_word_ratio, max_char_ratio

    def _keep(self, sources: Texts, targets: Texts) -> np.ndarray:
        return self._similar(
            sources.words + _ADDED_WORDS,
            targets.words + _ADDED_WORDS,
            self.max_word_ratio,
        ) & self._similar(
            sources.columns + _ADDED_CHARS,
            targets.columns + _ADDED_CHARS,
            self.max_char_ratio,
        )

    @staticmethod
    def _similar(sources: np.ndarray, targets: np.ndarray, ratio: float) -> np.ndarray:
        return np.maximum(sources, targets) <= ratio * np.minimum(sources, targets)


class LongWordFilter(SideFilter):
    """Rejects pairs with a very long word, such as a path or encoded data.

    `LongWordFilter` of OpusFilter. Characters of scripts without spaces between words
    are words of their own.

    Args:
        max_word_chars: Maximum number of characters in a word.
    """

    name = "long_word"

    def __init__(self, max_word_chars: int) -> None:
        self.max_word_chars = max_word_chars

    def _keep_side(self, texts: Texts) -> np.ndarray:
        keep = np.ones(len(texts), bool)
        keep[texts.token_rows[texts.token_lengths > self.max_word_chars]] = False
        return keep
