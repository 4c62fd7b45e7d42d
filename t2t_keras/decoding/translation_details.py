"""Token-level details of translations: tokens, their scores and word alignment."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.forced_decoding import align_words
from t2t_keras.decoding.translation_status import OK


class Details(NamedTuple):
    """Token-level details of a translation.

    Attributes:
        tokens: The tokens as text.
        token_scores: The log-probability of each token and of the end token. A
            truncated translation has no score of the end token.
        alignment: Pairs of source and target word indices: the source word that each
            target word is aligned with.
    """

    tokens: list[str]
    token_scores: list[float]
    alignment: list[tuple[int, int]]


class ScoredTranslation(NamedTuple):
    """The score of a given translation.

    Attributes:
        details: The details of the scored tokens; empty if none was scored.
        status: One of the values in `translation_status`.
    """

    details: Details = Details([], [], [])
    status: str = OK


class DetailReader:
    """Converts ids, scores and attention of translations to `Details`.

    Args:
        tokenizers: The tokenizers of the ids.
    """

    def __init__(self, tokenizers: TokenizerPair) -> None:
        self._tokenizers = tokenizers
        self._source_pieces = tokenizers.source.pieces()
        self._target_pieces = tokenizers.target.pieces()

    def read(
        self,
        source: Sequence[int],
        target: Sequence[int],
        token_scores: np.ndarray,
        attention: np.ndarray,
    ) -> Details:
        """Returns the details of a translation.

        Args:
            source: Source ids without the end token.
            target: Target ids without the end token.
            token_scores: float32, see `Details`.
            attention: Attention weights of tokens, at least `[target, source]`; the
                remaining rows and columns belong to end tokens and padding.
        """
        source_tokens = [self._source_pieces[i] for i in source]
        target_tokens = [self._target_pieces[i] for i in target]
        alignment = align_words(
            attention[: len(target_tokens), : len(source_tokens)],
            self._tokenizers.source.words(source_tokens),
            self._tokenizers.target.words(target_tokens),
        )
        return Details(target_tokens, token_scores.tolist(), alignment)
