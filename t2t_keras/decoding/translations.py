"""What a search has found, outside the graph."""

from typing import NamedTuple

import numpy as np

from t2t_keras.decoding.beam_search_state import Hypotheses
from t2t_keras.decoding.text_search import NO_HYPOTHESIS
from t2t_keras.special_tokens import PAD_ID


class Translation(NamedTuple):
    """One hypothesis for one sentence.

    Attributes:
        text: The translation; empty where there is none.
        score: Log-probability over length penalty; None where nothing was searched
            for or found, as no score was computed.
        status: A word of `status`.
    """

    text: str
    score: float | None
    status: str = "ok"


class Found(NamedTuple):
    """A translation, and what it is made of.

    Attributes:
        translation: The translation.
        ids: `[length]` int32, its tokens.
        token_scores: `[length]` or `[length + 1]` float32, as of `Details`.
    """

    translation: Translation
    ids: np.ndarray = np.zeros([0], np.int32)
    token_scores: np.ndarray = np.zeros([0], np.float32)


def read_hypotheses(
    found: Hypotheses, texts: np.ndarray, outcomes: np.ndarray
) -> list[list[Found]]:
    """Reads the hypotheses of a batch.

    Args:
        found: What a search returned.
        texts: `[rows, n_best]` strings, of the best of them.
        outcomes: `[rows]` strings, as of `TextSearch.outcome`.

    Returns:
        Those of each row, at most `n_best`; where there are none, an empty translation
        whose status says why.
    """
    n_best = texts.shape[1]
    scores, ids = (x[:, :n_best].numpy() for x in (found.scores, found.ids))
    token_scores = np.zeros([*scores.shape, 0], np.float32)
    if found.token_scores is not None:
        token_scores = found.token_scores[:, :n_best].numpy()
    rows = []
    for outcome, *row in zip(outcomes, texts, scores, ids, token_scores, strict=True):
        status = outcome.decode()
        hypotheses = [
            Found(
                Translation(text.decode("utf-8", "replace"), float(score), status),
                tokens[tokens != PAD_ID],
                each[~np.isnan(each)],
            )
            for text, score, tokens, each in zip(*row, strict=True)
            if score > NO_HYPOTHESIS
        ]
        rows.append(hypotheses or [Found(Translation("", None, status))])
    return rows
