"""Scores of translations, by sacreBLEU (Post, 2018)."""

from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


class Score(NamedTuple):
    """A figure and how it came about.

    Attributes:
        name: "BLEU" or "chrF2".
        value: The score, 0 to 100.
        signature: sacreBLEU's signature, which makes it comparable.
    """

    name: str
    value: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f}  ({self.signature})"


def score_translations(
    hypotheses: Sequence[str], references: Sequence[str]
) -> list[Score]:
    """Scores translations against one reference each.

    Args:
        hypotheses: One translation a sentence.
        references: As many references.

    Returns:
        sacreBLEU and chrF2.

    Raises:
        ValueError: If there are not as many references, or none.
    """
    if len(hypotheses) != len(references) or not references:
        raise ValueError(
            "Scoring needs as many hypotheses as references, and at least one. "
            f"Received: {len(hypotheses)} hypotheses and {len(references)} references"
        )
    scores = []
    for metric in (BLEU(), CHRF()):
        result = metric.corpus_score(list(hypotheses), [list(references)])
        scores.append(Score(result.name, result.score, metric.get_signature().format()))
    return scores


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Returns sacreBLEU alone; see `score_translations`."""
    return score_translations(hypotheses, references)[0].value
