"""Scores of translations in contrast to those given other source sentences.

The log-probability of a translation depends on how common its words are. The difference
from the log-probability given an unrelated source is an estimate of their pointwise
mutual information: it is large for translations of the source, and about zero for other
sentences.
"""

from collections.abc import Sequence

from t2t_keras.data.text_lines import is_text
from t2t_keras.decoding.translation_details import ScoredTranslation


def other_sources(sources: Sequence[str]) -> list[str]:
    """Returns another sentence of the same text for each source.

    Args:
        sources: `[n]` sentences, some of which may be empty or invalid.

    Returns:
        `[n]` sentences, or none if fewer than two different ones are not empty.
    """
    usable = [
        source
        for source in dict.fromkeys(sources)
        if source.strip() and is_text(source)
    ]
    if len(usable) < 2:
        return []
    # Sentences nearby are often similar.
    distance = len(usable) // 2
    places = {source: place for place, source in enumerate(usable)}
    return [
        usable[(places.get(source, 0) + distance) % len(usable)] for source in sources
    ]


def score_difference(
    given: ScoredTranslation, given_other: ScoredTranslation
) -> ScoredTranslation:
    """Subtracts the scores of a translation given another source.

    Args:
        given: The translation, given its source.
        given_other: The same translation, given another source.

    Returns:
        The differences of the token scores, or the one of both without scores.
    """
    own, other = given.details.token_scores, given_other.details.token_scores
    if not (own and other):
        return given_other if own else given
    scores = [
        with_source - without for with_source, without in zip(own, other, strict=True)
    ]
    return given._replace(details=given.details._replace(token_scores=scores))
