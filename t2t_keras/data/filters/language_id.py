"""The filter by identified language, with the package py3langid."""

import functools
from typing import Any

import numpy as np

from t2t_keras.data.filters import characters
from t2t_keras.data.filters.scripts import base_language
from t2t_keras.data.filters.text_filter import TextFilter
from t2t_keras.data.filters.texts import Texts
from t2t_keras.optional_packages import require_extra

_VARIANTS = (
    frozenset({"ar", "ary", "arz"}),
    frozenset({"bs", "hr", "sr"}),
    frozenset({"nn", "no"}),
    frozenset({"wuu", "yue", "zh"}),
)
"""Labels of the model for nearly the same written language."""

_LABELS = {"nb": "no", "cnr": "sr", "sh": "sr", "fil": "tl", "gn": "gug", "ki": "kik"}
"""Labels of the model that differ from the code of the language."""

_MAX_CHARS = 1000
"""Only the beginning of longer text is looked at."""


class LanguageIdFilter(TextFilter):
    """Rejects pairs with a side in another language than expected.

    `LanguageIDFilter` of OpusFilter. The language is identified by the model of
    py3langid (Lui and Baldwin, 2011): naive Bayes over byte n-grams. The probability of
    the expected language is compared with that of the most probable one, because the
    probabilities of short text are low for every language. Sides without letters are
    kept.

    Args:
        source_language: Expected label of the sources, from `supported_language`. None
            accepts any language.
        target_language: Expected label of the targets.
        min_language_confidence: Minimum probability of the expected language, divided
            by that of the most probable language.

    Raises:
        MissingExtra: If py3langid is not installed.
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
        _identifier()

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
            keep[index] = self._is_probable(accepted, texts[index][:_MAX_CHARS])
        return keep

    def _is_probable(self, accepted: frozenset[str], text: str) -> bool:
        identifier = _identifier()
        best, probability = identifier.classify(text)
        if best in accepted:
            return True
        # The probabilities of all languages take twice the time of the best one.
        expected = sum(p for label, p in identifier.rank(text) if label in accepted)
        return expected >= self.min_language_confidence * probability


def supported_language(code: str) -> str | None:
    """Returns the label of the model for a language code, or None without one.

    Args:
        code: A code of ISO 639-1, 639-2 or 639-3, or a locale: "de", "deu", "pt_BR".

    Raises:
        MissingExtra: If py3langid is not installed.
    """
    language = base_language(code)
    label = _LABELS.get(language, language)
    return label if label in _identifier().labels else None


def _with_variants(language: str) -> frozenset[str]:
    for variants in _VARIANTS:
        if language in variants:
            return variants
    return frozenset({language})


@functools.cache
def _identifier() -> Any:
    require_extra("langid", "The filter language_id", "py3langid")
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
