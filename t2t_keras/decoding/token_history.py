"""The tokens of hypotheses while a search goes on, and their log-probabilities."""

import math

import tensorflow as tf

from t2t_keras.special_tokens import PAD_ID

IDS, LOG_PROBS = "ids", "log_probs"

History = dict[str, tf.Tensor]
"""`IDS` int32 and, if wanted, `LOG_PROBS` float32: each `[rows, beam, length]`."""

_PADDING = {IDS: PAD_ID, LOG_PROBS: math.nan}


def blank(shape: list[tf.Tensor | int], with_log_probs: bool) -> History:
    """Returns nothing but padding.

    Args:
        shape: Rows, beam, length.
        with_log_probs: Whether to keep log-probabilities beside ids.
    """
    names = [IDS, LOG_PROBS] if with_log_probs else [IDS]
    return {name: tf.fill(shape, _PADDING[name]) for name in names}


def pad(history: History, length: tf.Tensor | int) -> History:
    """Appends padding of some length to all hypotheses."""
    return {
        name: tf.pad(
            values, [[0, 0], [0, 0], [0, length]], constant_values=_PADDING[name]
        )
        for name, values in history.items()
    }


def clear(history: History, rows: tf.Tensor) -> History:
    """Makes padding of all hypotheses of some rows.

    Args:
        history: Of hypotheses.
        rows: `[rows]` bool.
    """
    return {
        name: tf.where(rows[:, tf.newaxis, tf.newaxis], _PADDING[name], values)
        for name, values in history.items()
    }


def select(history: History, places: tf.Tensor) -> History:
    """Takes some hypotheses of each row: `places`, `[rows, n]`, along the beam."""
    return {
        name: tf.gather(values, places, batch_dims=1)
        for name, values in history.items()
    }


def join(first: History, second: History, axis: int) -> History:
    """Puts histories of the same rows together: along the beam (1) or in time (2)."""
    return {name: tf.concat([first[name], second[name]], axis) for name in first}


def choose(condition: tf.Tensor, first: History, second: History) -> History:
    """Takes from the first where a condition, `[rows, 1, 1]` bool, holds."""
    return {name: tf.where(condition, first[name], second[name]) for name in first}
