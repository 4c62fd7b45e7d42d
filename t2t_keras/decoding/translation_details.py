"""Translations looked at token by token."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.forced_decoding import align_words
from t2t_keras.decoding.translation_status import OK


class Details(NamedTuple):
    """A translation, token by token.

    Attributes:
        tokens: The text of its tokens.
        token_scores: The log-probability of each, the end's last; without an end, if
            the translation was cut before it.
        alignment: For each of its words the word of the source that it comes from:
            pairs of source and target, numbered from 0.
    """

    tokens: list[str]
    token_scores: list[float]
    alignment: list[tuple[int, int]]


class Scored(NamedTuple):
    """A given translation and how likely it is.

    Attributes:
        details: Of what was scored; nothing if nothing was.
        status: As of `status`.
    """

    details: Details = Details([], [], [])
    status: str = OK


class DetailReader:
    """Makes details of the ids and numbers of one translation after another.

    Args:
        tokenizers: Those that the ids are of.
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
            source: Ids of its source, without end.
            target: Its ids, without end.
            token_scores: float32, as of `Details`.
            attention: `[target, source]` and more, of tokens: what lies behind is that
                of ends and padding.
        """
        heard = [self._source_pieces[i] for i in source]
        said = [self._target_pieces[i] for i in target]
        alignment = align_words(
            attention[: len(said), : len(heard)],
            self._tokenizers.source.words(heard),
            self._tokenizers.target.words(said),
        )
        return Details(said, token_scores.tolist(), alignment)
