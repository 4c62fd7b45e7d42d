"""The steps of a search, in the order in which `search` takes them.

Each step is a function of tensors that can be run and tested alone. `step` is the
number of tokens that all beams have, a scalar int32. When rows finish is decided in
`search_stopping.py`.
"""

import math

import tensorflow as tf

from t2t_keras.decoding import constraints, sampling
from t2t_keras.decoding.beam_search_state import (
    BatchResults,
    Candidates,
    Predictions,
    State,
)
from t2t_keras.decoding.constraints import IMPOSSIBLE
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.length_penalty import hypothesis_scores
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.token_history import (
    IDS,
    LOG_PROBS,
    History,
    append_padding,
    clear_rows,
    concat,
    gather_beams,
    where,
)
from t2t_keras.decoding.top_k import top_k
from t2t_keras.special_tokens import BOS_ID, EOS_ID, PAD_ID


def predict_next(ensemble: Ensemble, step: tf.Tensor, state: State) -> Predictions:
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
    # The static size is lost for beam size 1.
    logits = tf.ensure_shape(logits, [None, beam_size, ensemble.vocab_size])
    # Non-finite if any logit is, which reveals a broken model.
    log_sum = tf.reduce_logsumexp(logits, axis=-1, keepdims=True)
    return Predictions(logits, log_sum, cache, ancestors)


def apply_constraints(
    logits: tf.Tensor, step: tf.Tensor, state: State, options: SearchOptions
) -> tf.Tensor:
    """Masks tokens that the options and the forced prefixes do not allow."""
    constrained = logits
    if options.disable_unk:
        constrained = constraints.block_unknown(constrained)
    if options.min_length:
        constrained = constraints.enforce_min_length(
            constrained, step, options.min_length
        )
    if options.no_repeat_ngram:
        constrained = constraints.block_repeated_ngrams(
            constrained, state.tokens[IDS], options.no_repeat_ngram
        )
    return constraints.force_prefix(constrained, logits, step, state.prefix)


def select_best(
    predictions: Predictions, step: tf.Tensor, state: State, options: SearchOptions
) -> Candidates:
    """Selects the 2 * beam_size most probable candidates of each row.

    At most half of them end, which leaves enough candidates for the next beams.
    """
    logits, log_sum = predictions.logits, predictions.log_sum
    beam_size, vocab_size = logits.shape[1:]
    per_beam = min(2 * beam_size, vocab_size)
    # Selecting before normalizing is faster: fewer numbers are normalized.
    best, tokens = top_k(apply_constraints(logits, step, state, options), per_beam)
    log_probs = state.log_probs[:, :, tf.newaxis] + best - log_sum
    # NaN cannot be sorted.
    log_probs = tf.where(tf.math.is_finite(log_sum), log_probs, 2 * IMPOSSIBLE)
    # [rows, beam, per_beam] -> [rows, beam * per_beam]
    flat = [tf.shape(log_probs)[0], beam_size * per_beam]
    log_probs, chosen = tf.math.top_k(
        tf.reshape(log_probs, flat), min(2 * beam_size, beam_size * per_beam)
    )
    tokens = tf.gather(tf.reshape(tokens, flat), chosen, batch_dims=1)
    return Candidates(chosen // per_beam, tokens, log_probs)


def sample_candidates(
    predictions: Predictions, step: tf.Tensor, state: State, options: SearchOptions
) -> Candidates:
    """Samples one candidate for each beam."""
    logits, log_sum = predictions.logits, predictions.log_sum
    constrained = apply_constraints(logits, step, state, options)
    constrained = tf.where(tf.math.is_finite(log_sum), constrained, 0.0)
    tokens = sampling.sample(constrained, step, state.seed, options)
    # The score is the probability under the unmodified model.
    log_probs = tf.gather(logits, tokens, batch_dims=2) - log_sum[:, :, 0]
    log_probs = tf.where(tf.math.is_finite(log_probs), log_probs, 2 * IMPOSSIBLE)
    parents = tf.zeros_like(tokens) + tf.range(logits.shape[1])
    return Candidates(parents, tokens, state.log_probs + log_probs)


def force_end(candidates: Candidates, step: tf.Tensor, state: State) -> Candidates:
    """Ends the beams of rows at their maximum length, without changing their scores.

    Args:
        candidates: The candidates.
        step: Number of tokens of each beam.
        state: State before the step.
    """
    is_last = (step + 1 >= state.max_length)[:, tf.newaxis]
    number, beam_size = tf.shape(candidates.tokens)[1], state.log_probs.shape[1]
    # One candidate for each beam, and none for the others.
    missing = [[0, 0], [0, number - beam_size]]
    log_probs = tf.pad(state.log_probs, missing, constant_values=2 * IMPOSSIBLE)
    return Candidates(
        tf.where(is_last, tf.range(number) % beam_size, candidates.parents),
        tf.where(is_last, EOS_ID, candidates.tokens),
        tf.where(is_last, log_probs, candidates.log_probs),
    )


def extend_tokens(state: State, candidates: Candidates) -> History:
    """Returns the tokens of the candidates, `[rows, n, step + 1]`."""
    new = {IDS: candidates.tokens[:, :, tf.newaxis]}
    if LOG_PROBS in state.tokens:
        before = tf.gather(state.log_probs, candidates.parents, batch_dims=1)
        new[LOG_PROBS] = (candidates.log_probs - before)[:, :, tf.newaxis]
    return concat(gather_beams(state.tokens, candidates.parents), new, axis=2)


def update_finished(
    step: tf.Tensor,
    state: State,
    candidates: Candidates,
    tokens: History,
    options: SearchOptions,
) -> State:
    """Adds candidates that end to the finished hypotheses and keeps the best ones.

    Args:
        step: Number of tokens of each beam.
        state: State before the step.
        candidates: The candidates.
        tokens: Their tokens, from `extend_tokens`.
        options: Search options.
    """
    beam_size = options.beam_size
    scores = hypothesis_scores(candidates.log_probs, step + 1, options)
    # A candidate may end only if it ranks among the first beam_size, which makes one
    # beam equal to greedy search. Unused beams yield no hypotheses.
    is_kept = tf.range(tf.shape(candidates.tokens)[1]) < beam_size
    is_finished = candidates.tokens == EOS_ID
    is_finished &= is_kept & (candidates.log_probs > IMPOSSIBLE / 2)
    finished_scores = tf.concat(
        [state.finished_scores, tf.where(is_finished, scores, IMPOSSIBLE)], axis=1
    )
    finished_scores, kept = tf.math.top_k(finished_scores, beam_size)
    all_tokens = concat(append_padding(state.finished_tokens, 1), tokens, axis=1)
    return state._replace(
        finished_tokens=gather_beams(all_tokens, kept), finished_scores=finished_scores
    )


def update_beams(
    ensemble: Ensemble,
    state: State,
    predictions: Predictions,
    candidates: Candidates,
    tokens: History,
    options: SearchOptions,
) -> State:
    """Replaces the beams by the best candidates that do not end.

    The log-probabilities of rows with non-finite predictions become NaN.

    Args:
        ensemble: The models, which reorder their caches.
        state: State before the step.
        predictions: Predictions of the models.
        candidates: The candidates.
        tokens: Their tokens, from `extend_tokens`.
        options: Search options.
    """
    is_live = state.log_probs > IMPOSSIBLE / 2
    is_broken = tf.reduce_any(
        is_live & ~tf.math.is_finite(predictions.log_sum[:, :, 0]),
        axis=1,
        keepdims=True,
    )
    live = tf.where(candidates.tokens == EOS_ID, 2 * IMPOSSIBLE, candidates.log_probs)
    if options.sample:  # Each sample stays in its beam.
        log_probs = tf.maximum(live, 2 * IMPOSSIBLE)
        kept = tf.zeros_like(candidates.parents) + tf.range(options.beam_size)
    else:
        log_probs, kept = tf.math.top_k(live, options.beam_size)
    parents = tf.gather(candidates.parents, kept, batch_dims=1)
    return state._replace(
        cache=ensemble.reorder(predictions.cache, parents),
        ancestors=tf.gather(predictions.ancestors, parents, batch_dims=1),
        tokens=gather_beams(tokens, kept),
        log_probs=tf.where(is_broken, math.nan, log_probs),
    )


def collect_results(
    step: tf.Tensor, state: State, options: SearchOptions
) -> BatchResults:
    """Returns the hypotheses of all rows of a state, `[rows, beam, step]`."""
    unfinished = hypothesis_scores(state.log_probs, step, options)
    if options.sample:  # Truncated samples count too.
        scores = tf.concat([state.finished_scores, unfinished], axis=1)
        scores, kept = tf.math.top_k(scores, options.beam_size)
        tokens = concat(state.finished_tokens, state.tokens, axis=1)
        tokens = gather_beams(tokens, kept)
    else:
        # Rows without a finished hypothesis return their truncated beams.
        none_finished = state.finished_scores[:, :1] < IMPOSSIBLE / 2
        scores = tf.where(none_finished, unfinished, state.finished_scores)
        tokens = where(
            none_finished[:, :, tf.newaxis], state.tokens, state.finished_tokens
        )
    is_broken = tf.math.is_nan(state.log_probs[:, 0])
    scores = tf.where(is_broken[:, tf.newaxis], math.nan, scores)
    tokens = clear_rows(tokens, is_broken)
    tokens[IDS] = tf.where(tokens[IDS] == EOS_ID, PAD_ID, tokens[IDS])
    return BatchResults(tokens, scores)


def write_results(
    state: State, row_results: BatchResults, rows: tf.Tensor, results: BatchResults
) -> BatchResults:
    """Writes the results of some rows to their indices in the batch.

    Args:
        state: State of all rows.
        row_results: Results of all rows, from `collect_results`.
        rows: `[rows]` bool, True for the rows to write.
        results: Results of the batch so far.
    """
    written = tf.nest.map_structure(lambda x: tf.boolean_mask(x, rows), row_results)
    missing = tf.shape(results.tokens[IDS])[2] - tf.shape(written.tokens[IDS])[2]
    written = written._replace(tokens=append_padding(written.tokens, missing))
    indices = tf.boolean_mask(state.batch_index, rows)[:, tf.newaxis]
    return tf.nest.map_structure(
        lambda all_, x: tf.tensor_scatter_nd_update(all_, indices, x), results, written
    )
