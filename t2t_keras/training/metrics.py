"""Sums over tokens from which every reported figure follows."""

import math
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from t2t_keras.tokens import PAD_ID

FIELDS = ("smoothed", "nll", "correct", "target_tokens", "source_tokens", "positions")
"""What the entries of a vector of sums stand for."""


def token_sums(
    source: tf.Tensor,
    labels: tf.Tensor,
    smoothed: tf.Tensor,
    nll: tf.Tensor,
    correct: tf.Tensor,
) -> tf.Tensor:
    """Adds up what one batch contributes to the metrics.

    Args:
        source: `[batch, source]` integer ids, 0 for padding.
        labels: `[n]` integer, the right target tokens, 0 for padding.
        smoothed: `[n]` float, label-smoothed losses.
        nll: `[n]` float, negative log-likelihoods.
        correct: `[n]` bool, whether the right token was the likeliest.

    Returns:
        `[len(FIELDS)]` float64; sums of different batches may be added.
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
    """Turns sums into the figures that are reported.

    Args:
        sums: A vector of `FIELDS`, of one batch or of many added up.

    Returns:
        "loss", the label-smoothed one, and "nll", both in nats a target token;
        "perplexity", exp(nll); "accuracy", the share of target tokens that were the
        likeliest; "tokens", of both sides; "non_padding", a share.
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
    """Returns exp(nll), a diverged run's greatest float instead of an overflow."""
    return math.exp(min(nll, 700.0)) if math.isfinite(nll) else nll
