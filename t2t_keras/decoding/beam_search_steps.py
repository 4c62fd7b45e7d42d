"""The steps of a search, in the order in which `search` takes them.

Each is a function of tensors that can be run and tested alone. `step` is the number of
tokens that all beams have, a scalar int32.
"""

import math

import tensorflow as tf

from t2t_keras.decoding import constraints, sampling
from t2t_keras.decoding.beam_search_state import Choice, Found, Scored, State
from t2t_keras.decoding.constraints import IMPOSSIBLE
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.length_penalty import length_penalty_of
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.token_history import (
    IDS,
    LOG_PROBS,
    History,
    choose,
    clear,
    join,
    pad,
    select,
)
from t2t_keras.decoding.top_k import top_k
from t2t_keras.special_tokens import BOS_ID, EOS_ID, PAD_ID


def length_limits(
    source: tf.Tensor, prefix: tf.Tensor, options: SearchOptions
) -> tf.Tensor:
    """Returns the maximum number of tokens of each output, the end included.

    Args:
        source: `[batch, source]` int32 ids, 0 for padding.
        prefix: `[batch, prefix]` int32, what the outputs begin with, 0 for padding.
        options: The search options.

    Returns:
        `[batch]` int32.
    """
    limit = tf.math.count_nonzero(source, axis=1, dtype=tf.int32)
    limit = tf.maximum(limit + options.max_extra_length, options.min_length + 1)
    if options.max_output_tokens:
        limit = tf.minimum(limit, options.max_output_tokens)
    return tf.maximum(limit, tf.math.count_nonzero(prefix, axis=1, dtype=tf.int32) + 1)


def score_next(ensemble: Ensemble, step: tf.Tensor, state: State) -> Scored:
    """Runs the decoders on the last token of each beam."""
    beam_size = state.log_probs.shape[1]
    previous = tf.cond(
        step > 0,
        lambda: state.tokens[IDS][:, :, -1],
        lambda: tf.fill(tf.shape(state.log_probs), BOS_ID),
    )
    previous = tf.ensure_shape(previous, [None, beam_size])
    itself = tf.eye(beam_size, batch_shape=[tf.shape(previous)[0]], dtype=tf.bool)
    ancestors = tf.concat([state.ancestors, itself], axis=2)
    logits, cache = ensemble.step(previous, step, ancestors, state.cache)
    # Beam size 1 may lose the static size.
    logits = tf.ensure_shape(logits, [None, beam_size, ensemble.vocab_size])
    # Not finite if a logit is not: a broken model shows here.
    log_sum = tf.reduce_logsumexp(logits, axis=-1, keepdims=True)
    return Scored(logits, log_sum, cache, ancestors)


def constrain(
    logits: tf.Tensor, step: tf.Tensor, state: State, options: SearchOptions
) -> tf.Tensor:
    """Makes tokens impossible that the options and the prefixes do not allow."""
    constrained = logits
    if options.min_length:
        constrained = constraints.forbid_early_end(
            constrained, step, options.min_length
        )
    if options.no_repeat_ngram:
        constrained = constraints.forbid_repeated_ngrams(
            constrained, state.tokens[IDS], options.no_repeat_ngram
        )
    return constraints.force(constrained, logits, step, state.prefix)


def choose_best(
    scored: Scored, step: tf.Tensor, state: State, options: SearchOptions
) -> Choice:
    """Chooses the most probable candidates of each row, twice as many as beams.

    At most half of them end, so that there are beams to go on with.
    """
    beam_size, vocab_size = scored.logits.shape[1:]
    of_each = min(2 * beam_size, vocab_size)
    # The best of each beam are picked before anything is normalized.
    best, tokens = top_k(constrain(scored.logits, step, state, options), of_each)
    log_probs = state.log_probs[:, :, tf.newaxis] + best - scored.log_sum
    # NaN has no place in an order.
    log_probs = tf.where(tf.math.is_finite(scored.log_sum), log_probs, 2 * IMPOSSIBLE)
    # [rows, beam, of_each] -> [rows, beam * of_each]
    flat = [tf.shape(log_probs)[0], beam_size * of_each]
    log_probs, chosen = tf.math.top_k(
        tf.reshape(log_probs, flat), min(2 * beam_size, beam_size * of_each)
    )
    tokens = tf.gather(tf.reshape(tokens, flat), chosen, batch_dims=1)
    return Choice(chosen // of_each, tokens, log_probs)


def choose_at_random(
    scored: Scored, step: tf.Tensor, state: State, options: SearchOptions
) -> Choice:
    """Draws one candidate for each beam."""
    constrained = constrain(scored.logits, step, state, options)
    constrained = tf.where(tf.math.is_finite(scored.log_sum), constrained, 0.0)
    tokens = sampling.draw(constrained, step, state.seed, options)
    # What counts is the likelihood under the model, whatever was drawn from.
    log_probs = tf.gather(scored.logits, tokens, batch_dims=2) - scored.log_sum[:, :, 0]
    log_probs = tf.where(tf.math.is_finite(log_probs), log_probs, 2 * IMPOSSIBLE)
    parents = tf.zeros_like(tokens) + tf.range(scored.logits.shape[1])
    return Choice(parents, tokens, state.log_probs + log_probs)


def extend(state: State, choice: Choice) -> History:
    """Returns the tokens of the candidates, `[rows, n, step + 1]`."""
    new = {IDS: choice.tokens[:, :, tf.newaxis]}
    if LOG_PROBS in state.tokens:
        before = tf.gather(state.log_probs, choice.parents, batch_dims=1)
        new[LOG_PROBS] = (choice.log_probs - before)[:, :, tf.newaxis]
    return join(select(state.tokens, choice.parents), new, axis=2)


def keep_finished(
    step: tf.Tensor,
    state: State,
    choice: Choice,
    tokens: History,
    options: SearchOptions,
) -> State:
    """Adds the candidates that end to the finished hypotheses, and keeps the best.

    Args:
        step: As elsewhere.
        state: The state.
        choice: The candidates.
        tokens: Their tokens, from `extend`.
        options: The search options.
    """
    beam_size = options.beam_size
    scores = choice.log_probs / length_penalty_of(step + 1, options.length_penalty)
    # An end counts where it would have been kept as a beam, so that a beam of 1 is
    # greedy; and a beam that began as a copy of the first is no hypothesis.
    is_kept = tf.range(tf.shape(choice.tokens)[1]) < beam_size
    is_finished = choice.tokens == EOS_ID
    is_finished &= is_kept & (choice.log_probs > IMPOSSIBLE / 2)
    done_scores = tf.concat(
        [state.done_scores, tf.where(is_finished, scores, IMPOSSIBLE)], axis=1
    )
    done_scores, kept = tf.math.top_k(done_scores, beam_size)
    done_tokens = select(join(pad(state.done_tokens, 1), tokens, axis=1), kept)
    return state._replace(done_tokens=done_tokens, done_scores=done_scores)


def keep_unfinished(
    state: State,
    scored: Scored,
    choice: Choice,
    tokens: History,
    options: SearchOptions,
) -> State:
    """Makes the best candidates that do not end the beams of the next step.

    Rows for which the models computed numbers that are not finite are given up.

    Args:
        state: The state before the step.
        scored: What the models said.
        choice: The candidates.
        tokens: Their tokens, from `extend`.
        options: The search options.
    """
    is_live = state.log_probs > IMPOSSIBLE / 2
    is_broken = tf.reduce_any(
        is_live & ~tf.math.is_finite(scored.log_sum[:, :, 0]), axis=1, keepdims=True
    )
    alive = tf.where(choice.tokens == EOS_ID, 2 * IMPOSSIBLE, choice.log_probs)
    if options.sample:  # Each keeps its place, and its own draws.
        log_probs = tf.maximum(alive, 2 * IMPOSSIBLE)
        kept = tf.zeros_like(choice.parents) + tf.range(options.beam_size)
    else:
        log_probs, kept = tf.math.top_k(alive, options.beam_size)
    parents = tf.gather(choice.parents, kept, batch_dims=1)
    return state._replace(
        cache=scored.cache,
        ancestors=tf.gather(scored.ancestors, parents, batch_dims=1),
        tokens=select(tokens, kept),
        log_probs=tf.where(is_broken, math.nan, log_probs),
    )


def is_unfinished(step: tf.Tensor, state: State, options: SearchOptions) -> tf.Tensor:
    """Returns which rows may still find something better, `[rows]` bool."""
    may_go_on = (step < state.limit) & ~tf.math.is_nan(state.log_probs[:, 0])
    if options.sample:
        alive = tf.reduce_any(state.log_probs > IMPOSSIBLE / 2, axis=1)
        return may_go_on & alive
    if options.beam_size == 1:  # Greedy search ends with its sentence.
        return may_go_on & (state.done_scores[:, 0] < IMPOSSIBLE / 2)
    # Log-probabilities only fall, and no penalty is larger than that of the limit.
    largest_penalty = length_penalty_of(state.limit, options.length_penalty)
    reachable = state.log_probs[:, 0] / largest_penalty
    worst = state.done_scores[:, options.n_best - 1]
    return may_go_on & (reachable > worst)


def results_of(step: tf.Tensor, state: State, options: SearchOptions) -> Found:
    """Returns the hypotheses of all rows of a state, `[rows, beam, step]`."""
    unfinished = state.log_probs / length_penalty_of(step, options.length_penalty)
    if options.sample:  # Every draw counts, those that were cut off too.
        scores = tf.concat([state.done_scores, unfinished], axis=1)
        scores, kept = tf.math.top_k(scores, options.beam_size)
        tokens = select(join(state.done_tokens, state.tokens, axis=1), kept)
    else:
        # A row that was cut off before any end has unfinished hypotheses only.
        none_done = state.done_scores[:, :1] < IMPOSSIBLE / 2
        scores = tf.where(none_done, unfinished, state.done_scores)
        tokens = choose(none_done[:, :, tf.newaxis], state.tokens, state.done_tokens)
    is_broken = tf.math.is_nan(state.log_probs[:, 0])
    scores = tf.where(is_broken[:, tf.newaxis], math.nan, scores)
    tokens = clear(tokens, is_broken)
    tokens[IDS] = tf.where(tokens[IDS] == EOS_ID, PAD_ID, tokens[IDS])
    return Found(tokens, scores)


def record(state: State, results: Found, rows: tf.Tensor, found: Found) -> Found:
    """Writes the results of some rows to their places in the batch.

    Args:
        state: The state of all rows.
        results: The results of all rows, from `results_of`.
        rows: `[rows]` bool, which of them to write.
        found: The results of the batch so far.
    """
    now = tf.nest.map_structure(lambda x: tf.boolean_mask(x, rows), results)
    missing = tf.shape(found.tokens[IDS])[2] - tf.shape(now.tokens[IDS])[2]
    now = now._replace(tokens=pad(now.tokens, missing))
    place = tf.boolean_mask(state.row, rows)[:, tf.newaxis]
    return tf.nest.map_structure(
        lambda all_, x: tf.tensor_scatter_nd_update(all_, place, x), found, now
    )
