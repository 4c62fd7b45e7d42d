"""Perplexity per token and per word."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from t2t_keras.plurals import counted


class Perplexity(NamedTuple):
    """Perplexity of a model on given translations.

    The paper's perplexities (Table 3) are per token and comparable only for the same
    vocabulary. Perplexities per word are comparable across vocabularies. EOS counts as
    a token and as a word.

    Attributes:
        nll: Negative log-likelihood of all translations, in nats.
        tokens: Number of tokens.
        words: Number of words, separated by white space.
    """

    nll: float
    tokens: int
    words: int

    @classmethod
    def from_token_scores(
        cls, texts: Iterable[str], token_scores: Iterable[Sequence[float]]
    ) -> "Perplexity":
        """Computes the sums over translations.

        Args:
            texts: The translations.
            token_scores: Log-probabilities of the tokens of each translation,
                including EOS. A translation without scores is skipped.
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
        """exp(nll / tokens), or None without tokens."""
        return _exp_mean(self.nll, self.tokens)

    @property
    def per_word(self) -> float | None:
        """exp(nll / words), or None without words."""
        return _exp_mean(self.nll, self.words)

    def __str__(self) -> str:
        if self.per_token is None or self.per_word is None:
            return "perplexity: no reference was scored"
        return (
            f"perplexity {self.per_token:.2f} per token, {self.per_word:.2f} per word  "
            f"({counted(self.tokens, 'token')} and {counted(self.words, 'word')} of "
            "the references, including EOS)"
        )


def _exp_mean(nll: float, number: int) -> float | None:
    # Limit the exponent, so that a useless model does not cause an overflow.
    return math.exp(min(nll / number, 700.0)) if number else None
