"""Scores and word alignments of given translations, by teacher forcing."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.ensemble import Ensemble, mean_probability
from t2t_keras.special_tokens import BOS_ID


class TokenScores(NamedTuple):
    """The result of `score_tokens`.

    Attributes:
        log_probs: `[batch, target]` float32, the log-probability of each target token
            given the tokens before it.
        attention: `[batch, target, source]` float32, attention weights.
    """

    log_probs: tf.Tensor
    attention: tf.Tensor


def score_tokens(
    ensemble: Ensemble, source: tf.Tensor, target: tf.Tensor
) -> TokenScores:
    """Scores given translations in one forward pass.

    The attention is that of the second-to-last decoder layer, which aligns words best
    (Garg et al., 2019), averaged over heads and models.

    Args:
        ensemble: The models.
        source: `[batch, source]` int32 ids with the end token and padding.
        target: `[batch, target]` int32 ids with the end token and padding, without
            the start token.
    """
    shifted = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=BOS_ID)
    logits, attention = [], []
    for model in ensemble.models:
        scores, weights = model(
            {"source": source, "target": shifted}, return_attention_scores=True
        )
        logits.append(tf.cast(scores, tf.float32))
        layer = weights["cross"][-2 if len(weights["cross"]) > 1 else -1]
        # [batch, heads, target, source] -> [batch, target, source]
        attention.append(tf.reduce_mean(tf.cast(layer, tf.float32), axis=1))
    log_probs = tf.nn.log_softmax(mean_probability(logits))
    return TokenScores(
        tf.gather(log_probs, target, batch_dims=2),
        tf.add_n(attention) / len(attention),
    )


def align_words(
    attention: np.ndarray, source_words: list[int], target_words: list[int]
) -> list[tuple[int, int]]:
    """Aligns each target word with the source word that it attends to most.

    Args:
        attention: `[target, source]` attention weights of tokens, without end tokens.
        source_words: The index of the word of each source token.
        target_words: The index of the word of each target token.

    Returns:
        Pairs of source and target word indices, in target order.
    """
    if not source_words or not target_words:
        return []
    sums = np.zeros([max(target_words) + 1, max(source_words) + 1])
    np.add.at(
        sums, (np.array(target_words)[:, None], np.array(source_words)), attention
    )
    return [(int(row.argmax()), index) for index, row in enumerate(sums)]
