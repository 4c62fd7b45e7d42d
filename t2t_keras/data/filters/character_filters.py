"""Filters by the kinds of characters on a side."""

import functools

import numpy as np

from t2t_keras.data.filters import characters
from t2t_keras.data.filters.text_filter import SideFilter, TextFilter
from t2t_keras.data.filters.texts import Texts


class AlphabetRatioFilter(SideFilter):
    """Rejects pairs with a side that has few letters: numbers, emoji, tables.

    `AlphabetRatioFilter` of OpusFilter with `exclude_whitespace`.

    Args:
        min_alphabet_ratio: Minimum share of letters in the characters other than white
            space. Marks such as the vowel signs of Devanagari count as letters.
    """

    name = "alphabet_ratio"

    def __init__(self, min_alphabet_ratio: float) -> None:
        self.min_alphabet_ratio = min_alphabet_ratio

    def _keep_side(self, texts: Texts) -> np.ndarray:
        letters = texts.count_class(characters.LETTER)
        return letters >= self.min_alphabet_ratio * texts.visible


class CharacterScoreFilter(TextFilter):
    """Rejects pairs with a side in another script than its language.

    `CharacterScoreFilter` of OpusFilter. Only letters count, and wide letters of East
    Asia (Han, kana, Hangul) count twice: words in Latin letters are longer. Pairs
    without letters are kept.

    Args:
        source_scripts: Scripts of the source language as ISO 15924 codes, such as
            `{"Latn"}`. None accepts any script.
        target_scripts: Scripts of the target language.
        min_script_share: Minimum share of letters in these scripts.
    """

    name = "character_score"

    def __init__(
        self,
        source_scripts: frozenset[str] | None,
        target_scripts: frozenset[str] | None,
        min_script_share: float,
    ) -> None:
        self.source_scripts, self.target_scripts = source_scripts, target_scripts
        self.min_script_share = min_script_share

    def _keep(self, sources: Texts, targets: Texts) -> np.ndarray:
        return self._keep_side(sources, self.source_scripts) & self._keep_side(
            targets, self.target_scripts
        )

    def _keep_side(self, texts: Texts, scripts: frozenset[str] | None) -> np.ndarray:
        if scripts is None:
            return np.ones(len(texts), bool)
        letters = (texts.flags & characters.SCRIPTED) != 0
        weights = letters * (1 + ((texts.flags & characters.WIDE) != 0))
        expected = texts.totals(weights * _in_scripts(scripts)[texts.code_points])
        return expected >= self.min_script_share * texts.totals(weights)


@functools.cache
def _in_scripts(scripts: frozenset[str]) -> np.ndarray:
    return characters.matching(characters.script_class(scripts))
