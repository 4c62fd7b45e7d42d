"""Perplexity per token and per word."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from t2t_keras.counted import counted


class Perplexity(NamedTuple):
    """How surprised a model is at given translations.

    The paper's perplexities (Table 3) are per token, and comparable only under one
    vocabulary; those per word are comparable across vocabularies. The end of a
    sentence counts as a token, and as a word.

    Attributes:
        nll: Negative log-likelihood of all translations, in nats.
        tokens: Their tokens.
        words: Their words, which are what spaces divide.
    """

    nll: float
    tokens: int
    words: int

    @classmethod
    def of(
        cls, texts: Iterable[str], token_scores: Iterable[Sequence[float]]
    ) -> "Perplexity":
        """Sums up over translations.

        Args:
            texts: The translations.
            token_scores: The log-probability of each of their tokens, the end's last;
                a translation without any is left out.
        """
        nll, tokens, words = 0.0, 0, 0
        for text, scores in zip(texts, token_scores, strict=True):
            if scores:
                nll -= math.fsum(scores)
                tokens += len(scores)
                words += len(text.split()) + 1
        return cls(nll, tokens, words)

    @property
    def per_token(self) -> float | None:
        """E to the mean negative log-likelihood of a token; None without any."""
        return _exp_mean(self.nll, self.tokens)

    @property
    def per_word(self) -> float | None:
        """E to the mean negative log-likelihood of a word; None without any."""
        return _exp_mean(self.nll, self.words)

    def __str__(self) -> str:
        if self.per_token is None or self.per_word is None:
            return "perplexity: no reference was scored"
        return (
            f"perplexity {self.per_token:.2f} per token, {self.per_word:.2f} per word  "
            f"({counted(self.tokens, 'token')} and {counted(self.words, 'word')} of "
            "the references, ends included)"
        )


def _exp_mean(nll: float, number: int) -> float | None:
    # Of a model that is all wrong, near the greatest float rather than an overflow.
    return math.exp(min(nll / number, 700.0)) if number else None
