"""Beam search over a decoder with cached keys and values (section 6.1).

All beams of a sentence are query positions of one row. Their keys are appended to
the row's cache step by step and never moved: a boolean mask says which of them a beam
descends from, so that a step copies no cache when beams change places, and all beams
share the encoder's keys and values. Greedy search is a beam of 1; in sampling, the
members of the beam ignore each other.
"""

from typing import Any

import tensorflow as tf

from t2t_keras.decoding.beam_search_state import Found, Hypotheses, State, initial_state
from t2t_keras.decoding.beam_search_steps import (
    choose_at_random,
    choose_best,
    extend,
    is_unfinished,
    keep_finished,
    keep_unfinished,
    length_limits,
    record,
    results_of,
    score_next,
)
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.token_history import IDS, LOG_PROBS, blank


def search(
    ensemble: Ensemble,
    source: tf.Tensor,
    options: SearchOptions,
    prefix: tf.Tensor | None = None,
    row_seeds: tf.Tensor | None = None,
    with_token_scores: bool = False,
) -> Hypotheses:
    """Finds the most probable translations, or draws some; for use in a `tf.function`.

    A sentence is finished when no beam can, at any length it may still reach, score
    higher than its `n_best`-th finished hypothesis; it then leaves the batch.

    Args:
        ensemble: The models.
        source: `[batch, source]` int32 ids, each row ended and padded.
        options: The search options.
        prefix: `[batch, prefix]` int32 ids that the outputs begin with, 0 for padding.
            Default none.
        row_seeds: `[batch]` int32, the random seed of each sentence, beside that of the
            options. Default: the places in the batch.
        with_token_scores: Whether to keep the log-probability of each token. Default
            False.

    Returns:
        `beam_size` hypotheses of each row, the best first. One that reached its
        maximum length is cut there.
    """
    batch = tf.shape(source)[0]
    if prefix is None:
        prefix = tf.zeros([batch, 0], tf.int32)

    # 1. Encode the sources. Each row begins with one beam that holds the start token
    #    (in sampling, with all beams), and with no finished hypothesis.
    limit = length_limits(source, prefix, options)
    state = initial_state(
        ensemble, source, limit, prefix, row_seeds, options, with_token_scores
    )
    longest = tf.reduce_max(tf.concat([limit, [0]], axis=0))
    shape = [batch, options.beam_size]
    found = Found(blank([*shape, longest], with_token_scores), tf.fill(shape, 0.0))

    # 2. Repeat steps 2.1 to 2.6 until all rows have left the batch.
    def body(step: tf.Tensor, state: State, found: Found) -> Any:
        # 2.1. Run the decoders on the last token of each beam: logits of the next one.
        scored = score_next(ensemble, step, state)

        # 2.2. Choose candidates: the best continuations of all beams of a row, twice as
        #      many as beams, or one random draw for each beam.
        choose = choose_at_random if options.sample else choose_best
        choice = choose(scored, step, state, options)
        tokens = extend(state, choice)

        # 2.3. Candidates that end are scored with the length penalty; each row keeps
        #      its best `beam_size` finished hypotheses.
        after = keep_finished(step, state, choice, tokens, options)

        # 2.4. The best `beam_size` candidates that do not end are the next beams.
        state = keep_unfinished(after, scored, choice, tokens, options)
        step += 1

        # 2.5. A row is finished when none of its beams can surpass its finished
        #      hypotheses, or at its maximum length.
        unfinished = is_unfinished(step, state, options)

        # 2.6. Finished rows leave the batch: their results are written to their places.
        def leave() -> tuple[State, Found]:
            stay = tf.where(unfinished)[:, 0]
            shrunk = tf.nest.map_structure(lambda x: tf.gather(x, stay), state)
            results = results_of(step, state, options)
            return shrunk, record(state, results, ~unfinished, found)

        state, found = tf.cond(tf.reduce_all(unfinished), lambda: (state, found), leave)
        return step, state, found

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
