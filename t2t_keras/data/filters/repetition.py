"""The filter for repeated words and phrases."""

import functools

import numpy as np

from t2t_keras.data.filters import characters
from t2t_keras.data.filters.text_filter import SideFilter
from t2t_keras.data.filters.texts import Texts

_MAX_PHRASE = 10
"""Maximum number of tokens in a phrase."""


class RepetitionFilter(SideFilter):
    """Rejects pairs with a word or phrase that is repeated many times in a row.

    `RepetitionFilter` of OpusFilter, on tokens in place of characters: words, or single
    characters of scripts without spaces between words. A phrase has at most 10 tokens.

    Args:
        max_repetitions: Maximum number of times in a row.
    """

    name = "repetition"

    def __init__(self, max_repetitions: int) -> None:
        self.max_repetitions = max_repetitions

    def _keep_side(self, texts: Texts) -> np.ndarray:
        keep = np.ones(len(texts), bool)
        tokens, rows = _token_hashes(texts), texts.token_rows
        for size in range(1, _MAX_PHRASE + 1):
            # If a phrase of `size` tokens occurs k times in a row, (k - 1) * size
            # consecutive tokens equal the token `size` before them.
            equal = (tokens[size:] == tokens[:-size]) & (rows[size:] == rows[:-size])
            changes = np.flatnonzero(np.diff(equal, prepend=False, append=False))
            starts, ends = changes[::2], changes[1::2]
            too_often = ends - starts >= self.max_repetitions * size
            keep[rows[starts[too_often]]] = False
        return keep


def _token_hashes(texts: Texts) -> np.ndarray:
    """Returns a hash of the characters of each token, `[tokens]` uint64."""
    starts = texts.token_starts
    if not len(starts):
        return np.zeros(0, np.uint64)
    # Each character is multiplied by a factor for its position in the token; the white
    # space after a token is multiplied by 0.
    spans = np.diff(starts, append=len(texts.code_points))
    offsets = np.arange(starts[0], len(texts.code_points)) - np.repeat(starts, spans)
    factors = _factors()[offsets % len(_factors())]
    factors[(texts.flags[starts[0] :] & characters.SPACE) != 0] = 0
    values = texts.code_points[starts[0] :] + np.uint64(1)
    return np.add.reduceat(values * factors, starts - starts[0])


@functools.cache
def _factors() -> np.ndarray:
    return np.random.default_rng(0).integers(1, 2**64, 1024, np.uint64)
