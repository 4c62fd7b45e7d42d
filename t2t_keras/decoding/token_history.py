"""Tokens of the hypotheses of a running search, with optional log-probabilities."""

import math

import tensorflow as tf

from t2t_keras.special_tokens import PAD_ID

IDS, LOG_PROBS = "ids", "log_probs"

History = dict[str, tf.Tensor]
"""`IDS` int32 and, if requested, `LOG_PROBS` float32: each `[rows, beam, length]`."""

_PADDING = {IDS: PAD_ID, LOG_PROBS: math.nan}


def padded_history(shape: list[tf.Tensor | int], with_log_probs: bool) -> History:
    """Returns a history that consists of padding.

    Args:
        shape: Number of rows, beam size and length.
        with_log_probs: Whether to keep log-probabilities beside ids.
    """
    names = [IDS, LOG_PROBS] if with_log_probs else [IDS]
    return {name: tf.fill(shape, _PADDING[name]) for name in names}


def append_padding(history: History, length: tf.Tensor | int) -> History:
    """Appends `length` padding tokens to all hypotheses."""
    return {
        name: tf.pad(
            values, [[0, 0], [0, 0], [0, length]], constant_values=_PADDING[name]
        )
        for name, values in history.items()
    }


def clear_rows(history: History, rows: tf.Tensor) -> History:
    """Replaces all hypotheses of some rows by padding.

    Args:
        history: The tokens.
        rows: `[rows]` bool, True for the rows to clear.
    """
    return {
        name: tf.where(rows[:, tf.newaxis, tf.newaxis], _PADDING[name], values)
        for name, values in history.items()
    }


def gather_beams(history: History, indices: tf.Tensor) -> History:
    """Gathers hypotheses of each row by their indices, `[rows, n]` int32."""
    return {
        name: tf.gather(values, indices, batch_dims=1)
        for name, values in history.items()
    }


def concat(first: History, second: History, axis: int) -> History:
    """Concatenates histories of the same rows along the beams (1) or in time (2)."""
    return {name: tf.concat([first[name], second[name]], axis) for name in first}


def where(condition: tf.Tensor, first: History, second: History) -> History:
    """Selects from `first` where the condition, `[rows, 1, 1]` bool, is True."""
    return {name: tf.where(condition, first[name], second[name]) for name in first}
