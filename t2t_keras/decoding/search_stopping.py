"""When a search stops: the maximum length of outputs, and early stopping."""

import tensorflow as tf

from t2t_keras.decoding.beam_search_state import State
from t2t_keras.decoding.constraints import IMPOSSIBLE
from t2t_keras.decoding.length_penalty import hypothesis_scores
from t2t_keras.decoding.options import SearchOptions


def max_output_lengths(
    source: tf.Tensor, prefix: tf.Tensor, options: SearchOptions
) -> tf.Tensor:
    """Returns the maximum number of tokens of each output, end token included.

    Args:
        source: `[batch, source]` int32 ids, 0 for padding.
        prefix: `[batch, prefix]` int32 ids of forced prefixes, 0 for padding.
        options: Search options.

    Returns:
        `[batch]` int32.
    """
    longest = tf.math.count_nonzero(source, axis=1, dtype=tf.int32)
    if options.max_length_factor != 1.0:
        scaled = tf.cast(longest, tf.float32) * options.max_length_factor
        longest = tf.cast(scaled, tf.int32)
    longest = tf.maximum(longest + options.max_extra_length, options.min_length + 1)
    if options.max_output_tokens:
        longest = tf.minimum(longest, options.max_output_tokens)
    prefix_lengths = tf.math.count_nonzero(prefix, axis=1, dtype=tf.int32)
    return tf.maximum(longest, prefix_lengths + 1)


def is_unfinished(step: tf.Tensor, state: State, options: SearchOptions) -> tf.Tensor:
    """Returns which rows can still find a better hypothesis, `[rows]` bool."""
    can_grow = (step < state.max_length) & ~tf.math.is_nan(state.log_probs[:, 0])
    if options.sample:
        is_live = tf.reduce_any(state.log_probs > IMPOSSIBLE / 2, axis=1)
        return can_grow & is_live
    if options.beam_size == 1:  # Greedy search stops at the first end token.
        return can_grow & (state.finished_scores[:, 0] < IMPOSSIBLE / 2)
    if options.early_stopping == "never":
        # Log-probabilities never increase; the penalty is largest at maximum length.
        length, worst = state.max_length, options.n_best - 1
    else:
        length, worst = step, -1
    best_reachable = hypothesis_scores(state.log_probs[:, 0], length, options)
    worst_kept = state.finished_scores[:, worst]
    if options.early_stopping == "first":
        can_grow &= worst_kept < IMPOSSIBLE / 2
    return can_grow & (best_reachable > worst_kept)
