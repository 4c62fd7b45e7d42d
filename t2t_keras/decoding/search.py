"""One search loop over a decoder with cached keys and values (section 6.1).

All beams of a sentence are query positions of one row. Their keys are appended to
the row's cache step by step and never moved: which of them a beam descends from is
kept as a boolean mask, so a step copies no cache when beams change places, and the
encoder's keys and values are shared by all beams. Greedy search is a beam of 1;
sampling is a beam whose members take no notice of each other.
"""

import math
from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.decoding import constraints, sampling
from t2t_keras.decoding.constraints import IMPOSSIBLE
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.token_history import (
    IDS,
    LOG_PROBS,
    History,
    blank,
    choose,
    clear,
    join,
    pad,
    select,
)
from t2t_keras.decoding.top_k import log_sum_exp, top_k
from t2t_keras.tokens import BOS_ID, EOS_ID, PAD_ID


class Hypotheses(NamedTuple):
    """What a search has found.

    Attributes:
        ids: `[batch, beam, length]` int32, without start and end, 0 for padding; the
            best first.
        scores: `[batch, beam]` float32, log-probability over length penalty. NaN in all
            of a row for which the models computed numbers that are not finite: nothing
            has been found for it. -1e9 or less where there is no further hypothesis.
        token_scores: `[batch, beam, length]` float32, the log-probability of each
            token, then of the end unless the hypothesis was cut off before it; NaN for
            padding. None unless asked for.
    """

    ids: tf.Tensor
    scores: tf.Tensor
    token_scores: tf.Tensor | None = None


class _State(NamedTuple):
    """The sentences still searched, `rows` of them.

    Attributes:
        row: `[rows]` int32, each one's place in the batch.
        seed: `[rows]` int32, what random draws depend on.
        limit: `[rows]` int32, the most tokens each may have, the end included.
        prefix: `[rows, prefix]` int32, what the outputs begin with, 0 for padding.
        cache: Keys and values, as of `Ensemble.start`.
        ancestors: `[rows, beam, step * beam]` bool, the cached positions that each
            beam descends from.
        tokens: Those of the beams.
        log_probs: `[rows, beam]` float32, theirs; NaN in a row that is given up, since
            the models computed numbers that are not finite.
        done_tokens: Those of the finished hypotheses.
        done_scores: `[rows, beam]` float32, theirs.
    """

    row: tf.Tensor
    seed: tf.Tensor
    limit: tf.Tensor
    prefix: tf.Tensor
    cache: Any
    ancestors: tf.Tensor
    tokens: History
    log_probs: tf.Tensor
    done_tokens: History
    done_scores: tf.Tensor


def length_penalty_of(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """((5 + length) / 6)^alpha (Wu et al., 2016, eq. 14).

    Args:
        length: Number of tokens, the end included.
        alpha: The exponent; 0 for no penalty.

    Returns:
        float32 of the shape of `length`.
    """
    return tf.pow((5.0 + tf.cast(length, tf.float32)) / 6.0, alpha)


class _Found(NamedTuple):
    """The results of the whole batch, as of `Hypotheses`."""

    tokens: History
    scores: tf.Tensor


class _Choice(NamedTuple):
    """How the beams of a step go on.

    Attributes:
        parents: `[rows, n]` int32, the beam that each candidate continues.
        tokens: `[rows, n]` int32, what with.
        log_probs: `[rows, n]` float32, of the whole, the best first.
    """

    parents: tf.Tensor
    tokens: tf.Tensor
    log_probs: tf.Tensor


def search(
    ensemble: Ensemble,
    source: tf.Tensor,
    options: SearchOptions,
    prefix: tf.Tensor | None = None,
    row_seeds: tf.Tensor | None = None,
    with_token_scores: bool = False,
) -> Hypotheses:
    """Finds the likeliest translations, or draws some. To be called in a `tf.function`.

    A sentence is finished when no beam can, at any length it may still reach, score
    higher than its `n_best`-th finished hypothesis; it then leaves the batch.

    Args:
        ensemble: The models.
        source: `[batch, source]` int32 ids, each row ended and padded.
        options: How to search.
        prefix: `[batch, prefix]` int32 ids that the outputs begin with, 0 for padding.
            Default none.
        row_seeds: `[batch]` int32, what draws of a sentence depend on beside the seed.
            Default the places in the batch.
        with_token_scores: Whether to keep the log-probability of each token. Default
            False.

    Returns:
        `beam_size` hypotheses of each row, the best first. One that reached its
        greatest length is cut there.
    """
    beam_size = options.beam_size
    batch = tf.shape(source)[0]
    if prefix is None:
        prefix = tf.zeros([batch, 0], tf.int32)
    limit = tf.math.count_nonzero(source, axis=1, dtype=tf.int32)
    limit = tf.maximum(limit + options.max_extra_length, options.min_length + 1)
    if options.max_output_tokens:
        limit = tf.minimum(limit, options.max_output_tokens)
    limit = tf.maximum(limit, tf.math.count_nonzero(prefix, axis=1, dtype=tf.int32) + 1)
    steps = tf.reduce_max(tf.concat([limit, [0]], axis=0))
    candidates = min(2 * beam_size, ensemble.vocab_size)

    def constrain(logits: tf.Tensor, step: tf.Tensor, state: _State) -> tf.Tensor:
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
        logits: tf.Tensor, log_sum: tf.Tensor, step: tf.Tensor, state: _State
    ) -> _Choice:
        # The best of each beam are picked before anything is normalized.
        best, tokens = top_k(constrain(logits, step, state), candidates)
        log_probs = state.log_probs[:, :, tf.newaxis] + best - log_sum
        # NaN has no place in an order.
        log_probs = tf.where(tf.math.is_finite(log_sum), log_probs, 2 * IMPOSSIBLE)
        # [rows, beam, candidates] -> [rows, beam * candidates]
        flat = [tf.shape(log_probs)[0], beam_size * candidates]
        log_probs, chosen = tf.math.top_k(
            tf.reshape(log_probs, flat), min(2 * beam_size, beam_size * candidates)
        )
        tokens = tf.gather(tf.reshape(tokens, flat), chosen, batch_dims=1)
        return _Choice(chosen // candidates, tokens, log_probs)

    def choose_at_random(
        logits: tf.Tensor, log_sum: tf.Tensor, step: tf.Tensor, state: _State
    ) -> _Choice:
        constrained = constrain(logits, step, state)
        constrained = tf.where(tf.math.is_finite(log_sum), constrained, 0.0)
        tokens = sampling.draw(constrained, step, state.seed, options)
        # What counts is the likelihood under the model, whatever was drawn from.
        log_probs = tf.gather(logits, tokens, batch_dims=2) - log_sum[:, :, 0]
        log_probs = tf.where(tf.math.is_finite(log_probs), log_probs, 2 * IMPOSSIBLE)
        parents = tf.zeros_like(tokens) + tf.range(beam_size)
        return _Choice(parents, tokens, state.log_probs + log_probs)

    choose_next = choose_at_random if options.sample else choose_best

    def search_step(step: tf.Tensor, state: _State) -> _State:
        previous = tf.cond(
            step > 0,
            lambda: state.tokens[IDS][:, :, -1],
            lambda: tf.fill(tf.shape(state.log_probs), BOS_ID),
        )
        previous = tf.ensure_shape(previous, [None, beam_size])
        itself = tf.eye(beam_size, batch_shape=[tf.shape(previous)[0]], dtype=tf.bool)
        ancestors = tf.concat([state.ancestors, itself], axis=2)
        logits, cache = ensemble.step(previous, step, ancestors, state.cache)
        # Which a beam of 1 may lose on its way.
        logits = tf.ensure_shape(logits, [None, beam_size, ensemble.vocab_size])
        log_sum = log_sum_exp(logits)
        # One that is not finite tells that some of the logits are not.
        is_live = state.log_probs > IMPOSSIBLE / 2
        is_broken = tf.reduce_any(
            is_live & ~tf.math.is_finite(log_sum[:, :, 0]), axis=1, keepdims=True
        )
        choice = choose_next(logits, log_sum, step, state)
        new = {IDS: choice.tokens[:, :, tf.newaxis]}
        if with_token_scores:
            before = tf.gather(state.log_probs, choice.parents, batch_dims=1)
            new[LOG_PROBS] = (choice.log_probs - before)[:, :, tf.newaxis]
        tokens = join(select(state.tokens, choice.parents), new, axis=2)

        ends = choice.tokens == EOS_ID
        scores = choice.log_probs / length_penalty_of(step + 1, options.length_penalty)
        # An end counts where it would have been kept as a beam, so that a beam of 1 is
        # greedy; and a beam that began as a copy of the first is no hypothesis.
        is_kept = tf.range(tf.shape(choice.tokens)[1]) < beam_size
        is_finished = ends & is_kept & (choice.log_probs > IMPOSSIBLE / 2)
        done_scores = tf.concat(
            [state.done_scores, tf.where(is_finished, scores, IMPOSSIBLE)], axis=1
        )
        done_scores, kept = tf.math.top_k(done_scores, beam_size)
        done_tokens = select(join(pad(state.done_tokens, 1), tokens, axis=1), kept)

        alive = tf.where(ends, 2 * IMPOSSIBLE, choice.log_probs)
        if options.sample:  # Each keeps its place, and its own draws.
            alive_log_probs = tf.maximum(alive, 2 * IMPOSSIBLE)
            kept = tf.zeros_like(choice.parents) + tf.range(beam_size)
        else:
            alive_log_probs, kept = tf.math.top_k(alive, beam_size)
        parents = tf.gather(choice.parents, kept, batch_dims=1)
        return state._replace(
            cache=cache,
            ancestors=tf.gather(ancestors, parents, batch_dims=1),
            tokens=select(tokens, kept),
            log_probs=tf.where(is_broken, math.nan, alive_log_probs),
            done_tokens=done_tokens,
            done_scores=done_scores,
        )

    def is_unfinished(step: tf.Tensor, state: _State) -> tf.Tensor:
        """Tells which rows may still find something better, `[rows]` bool."""
        may_go_on = (step < state.limit) & ~tf.math.is_nan(state.log_probs[:, 0])
        if options.sample:
            alive = tf.reduce_any(state.log_probs > IMPOSSIBLE / 2, axis=1)
            return may_go_on & alive
        if beam_size == 1:  # Greedy search ends with its sentence.
            return may_go_on & (state.done_scores[:, 0] < IMPOSSIBLE / 2)
        most = length_penalty_of(state.limit, options.length_penalty)
        reachable = state.log_probs[:, 0] / most
        worst = state.done_scores[:, options.n_best - 1]
        return may_go_on & (reachable > worst)

    def record(
        step: tf.Tensor, state: _State, found: _Found, rows: tf.Tensor
    ) -> _Found:
        """Writes the results of some rows into those of the whole batch."""
        unfinished = state.log_probs / length_penalty_of(step, options.length_penalty)
        if options.sample:  # Every draw counts, those that were cut off too.
            scores = tf.concat([state.done_scores, unfinished], axis=1)
            scores, kept = tf.math.top_k(scores, beam_size)
            tokens = select(join(state.done_tokens, state.tokens, axis=1), kept)
        else:
            # A row that was cut off before any end has unfinished hypotheses only.
            none_done = state.done_scores[:, :1] < IMPOSSIBLE / 2
            scores = tf.where(none_done, unfinished, state.done_scores)
            tokens = choose(
                none_done[:, :, tf.newaxis], state.tokens, state.done_tokens
            )
        is_broken = tf.math.is_nan(state.log_probs[:, 0])
        scores = tf.where(is_broken[:, tf.newaxis], math.nan, scores)
        tokens = clear(tokens, is_broken)
        tokens[IDS] = tf.where(tokens[IDS] == EOS_ID, PAD_ID, tokens[IDS])
        now = tf.nest.map_structure(
            lambda x: tf.boolean_mask(x, rows), _Found(tokens, scores)
        )
        now = now._replace(tokens=pad(now.tokens, steps - step))
        place = tf.boolean_mask(state.row, rows)[:, tf.newaxis]
        return tf.nest.map_structure(
            lambda all_, x: tf.tensor_scatter_nd_update(all_, place, x), found, now
        )

    def body(step: tf.Tensor, state: _State, found: _Found) -> Any:
        state = search_step(step, state)
        step += 1
        unfinished = is_unfinished(step, state)

        def leave() -> tuple[_State, _Found]:
            stay = tf.where(unfinished)[:, 0]
            shrunk = tf.nest.map_structure(lambda x: tf.gather(x, stay), state)
            return shrunk, record(step, state, found, ~unfinished)

        state, found = tf.cond(tf.reduce_all(unfinished), lambda: (state, found), leave)
        return step, state, found

    beams = tf.fill([batch, beam_size], 0.0)
    # Beams begin alike: all but the first would repeat it.
    others = 0.0 if options.sample else IMPOSSIBLE
    state = _State(
        row=tf.range(batch),
        seed=tf.range(batch) if row_seeds is None else row_seeds,
        limit=limit,
        prefix=prefix,
        cache=ensemble.start(source),
        ancestors=tf.zeros([batch, beam_size, 0], tf.bool),
        tokens=blank([batch, beam_size, 0], with_token_scores),
        log_probs=beams + tf.one_hot(0, beam_size, 0.0, others),
        done_tokens=blank([batch, beam_size, 0], with_token_scores),
        done_scores=beams + IMPOSSIBLE,
    )
    found = _Found(blank([batch, beam_size, steps], with_token_scores), beams)
    # Rows leave (axis 0), and what has a third axis grows along it.
    invariants = tf.nest.map_structure(
        lambda x: tf.TensorShape(
            [None if axis in (0, 2) else size for axis, size in enumerate(x.shape)]
        ),
        (tf.constant(0), state, found),
    )
    _, _, found = tf.while_loop(
        lambda step, state, found: tf.size(state.row) > 0,
        body,
        (tf.constant(0), state, found),
        shape_invariants=invariants,
    )
    return Hypotheses(found.tokens[IDS], found.scores, found.tokens.get(LOG_PROBS))
