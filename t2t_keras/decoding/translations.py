"""Hypotheses as Python objects, read from the tensors of a search."""

from typing import NamedTuple

import numpy as np

from t2t_keras.decoding.beam_search_state import Hypotheses
from t2t_keras.decoding.text_search import NO_HYPOTHESIS
from t2t_keras.special_tokens import PAD_ID


class Translation(NamedTuple):
    """A translation of a sentence.

    Attributes:
        text: The translation; empty if there is none.
        score: Log-probability divided by the length penalty; None if there is no
            translation.
        status: One of the values in `translation_status`.
    """

    text: str
    score: float | None
    status: str = "ok"


class Hypothesis(NamedTuple):
    """A translation with its tokens.

    Attributes:
        translation: The translation.
        ids: `[length]` int32, its tokens.
        token_scores: `[length]` or `[length + 1]` float32, see `Details`.
    """

    translation: Translation
    ids: np.ndarray = np.zeros([0], np.int32)
    token_scores: np.ndarray = np.zeros([0], np.float32)


def read_hypotheses(
    found: Hypotheses, texts: np.ndarray, statuses: np.ndarray
) -> list[list[Hypothesis]]:
    """Reads the hypotheses of a batch.

    Args:
        found: The result of the search.
        texts: `[rows, n_best]` strings, the text of the best hypotheses.
        statuses: `[rows]` strings, from `TextSearch.status_after_search`.

    Returns:
        At most `n_best` hypotheses for each row. A row without hypotheses has one empty
        translation with its status.
    """
    n_best = texts.shape[1]
    scores, ids = (x[:, :n_best].numpy() for x in (found.scores, found.ids))
    token_scores = np.zeros([*scores.shape, 0], np.float32)
    if found.token_scores is not None:
        token_scores = found.token_scores[:, :n_best].numpy()
    rows = []
    for status, *row in zip(statuses, texts, scores, ids, token_scores, strict=True):
        status = status.decode()
        hypotheses = [
            Hypothesis(
                Translation(text.decode("utf-8", "replace"), float(score), status),
                tokens[tokens != PAD_ID],
                log_probs[~np.isnan(log_probs)],
            )
            for text, score, tokens, log_probs in zip(*row, strict=True)
            if score > NO_HYPOTHESIS
        ]
        rows.append(hypotheses or [Hypothesis(Translation("", None, status))])
    return rows
