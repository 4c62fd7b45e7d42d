"""How likely given translations are, and what each of their words comes from."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.ensemble import Ensemble, mean_probability
from t2t_keras.special_tokens import BOS_ID


class TokenScores(NamedTuple):
    """What `score_tokens` returns.

    Attributes:
        log_probs: `[batch, target]` float32, of each target token given those before.
        attention: `[batch, target, source]` float32, what each target token attends to.
    """

    log_probs: tf.Tensor
    attention: tf.Tensor


def score_tokens(
    ensemble: Ensemble, source: tf.Tensor, target: tf.Tensor
) -> TokenScores:
    """Scores given translations, all positions at once.

    Attention is that of the last layer but one (Garg et al., 2019), the mean of its
    heads and of the models: the layer whose heads follow words best.

    Args:
        ensemble: The models.
        source: `[batch, source]` int32 ids, each row ended and padded.
        target: `[batch, target]` int32 ids, likewise, without start.
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
    """Finds for each target word the source word that it attends to most.

    Args:
        attention: `[target, source]`, of tokens, ends left out.
        source_words: For each source token the number of its word.
        target_words: Likewise for the target.

    Returns:
        Pairs of a source and a target word, numbered from 0, in target order.
    """
    if not source_words or not target_words:
        return []
    sums = np.zeros([max(target_words) + 1, max(source_words) + 1])
    np.add.at(
        sums, (np.array(target_words)[:, None], np.array(source_words)), attention
    )
    return [(int(row.argmax()), number) for number, row in enumerate(sums)]
