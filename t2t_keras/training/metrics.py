"""Sums over tokens, and the metrics computed from them."""

import math
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from t2t_keras.special_tokens import PAD_ID

FIELDS = ("smoothed", "nll", "correct", "target_tokens", "source_tokens", "positions")
"""Names of the entries of a vector of sums."""


def token_sums(
    source: tf.Tensor,
    labels: tf.Tensor,
    smoothed: tf.Tensor,
    nll: tf.Tensor,
    correct: tf.Tensor,
) -> tf.Tensor:
    """Computes the sums of one batch.

    Args:
        source: `[batch, source]` integer ids, 0 for padding.
        labels: `[n]` integer, reference target tokens, 0 for padding.
        smoothed: `[n]` float, label-smoothed losses.
        nll: `[n]` float, negative log-likelihoods.
        correct: `[n]` bool, whether the reference token was the most probable.

    Returns:
        `[len(FIELDS)]` float64. Sums of several batches can be added.
    """
    real = tf.cast(labels != PAD_ID, tf.float64)
    sums = [
        tf.reduce_sum(tf.cast(smoothed, tf.float64) * real),
        tf.reduce_sum(tf.cast(nll, tf.float64) * real),
        tf.reduce_sum(tf.cast(correct, tf.float64) * real),
        tf.reduce_sum(real),
        tf.reduce_sum(tf.cast(source != PAD_ID, tf.float64)),
        tf.cast(tf.size(source) + tf.size(labels), tf.float64),
    ]
    return tf.stack(sums)


def token_metrics(sums: Iterable[float] | np.ndarray) -> dict[str, float]:
    """Computes the reported metrics from sums.

    Args:
        sums: A vector of `FIELDS`, for one batch or summed over several.

    Returns:
        "loss" (label-smoothed) and "nll", both in nats per target token; "perplexity",
        exp(nll); "accuracy", the fraction of target tokens that were the most probable;
        "tokens", the number of source and target tokens; "non_padding", the fraction of
        positions that are not padding.
    """
    total = dict(zip(FIELDS, (float(x) for x in sums), strict=True))
    target = max(total["target_tokens"], 1.0)
    tokens = total["target_tokens"] + total["source_tokens"]
    nll = total["nll"] / target
    return {
        "loss": total["smoothed"] / target,
        "nll": nll,
        "perplexity": perplexity_of(nll),
        "accuracy": total["correct"] / target,
        "tokens": tokens,
        "non_padding": tokens / max(total["positions"], 1.0),
    }


def perplexity_of(nll: float) -> float:
    """Returns exp(nll), limited to exp(700) so that a diverged run cannot overflow."""
    return math.exp(min(nll, 700.0)) if math.isfinite(nll) else nll
