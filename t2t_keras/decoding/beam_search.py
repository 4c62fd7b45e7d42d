"""Beam search over a decoder with cached keys and values (section 6.1).

All beams of a sentence are query positions of one row. Their keys are appended to the
row's cache at each step and never moved: a boolean mask marks the cached positions that
each beam descends from. Reordering the beams therefore copies no cache, and all beams
share the encoder's keys and values. Only the states of SSRUs, one vector per beam and
layer, are reordered with the beams. Greedy search is beam search with one beam. In
sampling, the beams are independent of each other.
"""

from typing import Any

import tensorflow as tf

from t2t_keras.decoding.beam_search_state import (
    BatchResults,
    Hypotheses,
    State,
    initial_state,
)
from t2t_keras.decoding.beam_search_steps import (
    collect_results,
    extend_tokens,
    force_end,
    predict_next,
    sample_candidates,
    select_best,
    update_beams,
    update_finished,
    write_results,
)
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.search_stopping import is_unfinished, max_output_lengths
from t2t_keras.decoding.token_history import IDS, LOG_PROBS, padded_history


def search(
    ensemble: Ensemble,
    source: tf.Tensor,
    options: SearchOptions,
    prefix: tf.Tensor | None = None,
    row_seeds: tf.Tensor | None = None,
    with_token_scores: bool = False,
) -> Hypotheses:
    """Searches for the most probable translations, or samples; runs in `tf.function`.

    A sentence is finished when none of its beams can still score higher than its
    `n_best`-th finished hypothesis, unless `options.early_stopping` ends it earlier. It
    then leaves the batch.

    Args:
        ensemble: The models.
        source: `[batch, source]` int32 ids with the end token and padding.
        options: Search options.
        prefix: `[batch, prefix]` int32 ids of forced prefixes, 0 for padding. Default:
            no prefixes.
        row_seeds: `[batch]` int32, the random seed of each sentence, combined with
            `sample_seed`. Default: the index of the sentence in the batch.
        with_token_scores: Whether to return the log-probability of each token. Default
            False.

    Returns:
        `beam_size` hypotheses for each row, in descending order of score. Hypotheses
        that reach the maximum length are truncated.
    """
    batch = tf.shape(source)[0]
    if prefix is None:
        prefix = tf.zeros([batch, 0], tf.int32)

    # 1. Encode the sources. Each row starts with one live beam (all beams in sampling)
    #    and without finished hypotheses.
    max_lengths = max_output_lengths(source, prefix, options)
    state = initial_state(
        ensemble, source, max_lengths, prefix, row_seeds, options, with_token_scores
    )
    longest = tf.reduce_max(tf.concat([max_lengths, [0]], axis=0))
    shape = [batch, options.beam_size]
    results = BatchResults(
        padded_history([*shape, longest], with_token_scores), tf.fill(shape, 0.0)
    )

    # 2. Repeat steps 2.1 to 2.6 until all rows have left the batch.
    def body(step: tf.Tensor, state: State, results: BatchResults) -> Any:
        # 2.1. Run the decoders on the last token of each beam.
        predictions = predict_next(ensemble, step, state)

        # 2.2. Choose candidates: the 2 * beam_size most probable continuations of all
        #      beams of a row, or one sample for each beam.
        choose = sample_candidates if options.sample else select_best
        candidates = choose(predictions, step, state, options)
        if options.force_end:
            candidates = force_end(candidates, step, state)
        tokens = extend_tokens(state, candidates)

        # 2.3. Score candidates that end with the length penalty; each row keeps its
        #      best `beam_size` finished hypotheses.
        after = update_finished(step, state, candidates, tokens, options)

        # 2.4. The best `beam_size` candidates that do not end are the next beams.
        state = update_beams(ensemble, after, predictions, candidates, tokens, options)
        step += 1

        # 2.5. A row is finished at its maximum length, or when none of its beams can
        #      surpass its finished hypotheses.
        unfinished = is_unfinished(step, state, options)

        # 2.6. Finished rows leave the batch; their results are written.
        def remove_finished() -> tuple[State, BatchResults]:
            kept = tf.where(unfinished)[:, 0]
            remaining = tf.nest.map_structure(lambda x: tf.gather(x, kept), state)
            row_results = collect_results(step, state, options)
            return remaining, write_results(state, row_results, ~unfinished, results)

        state, results = tf.cond(
            tf.reduce_all(unfinished), lambda: (state, results), remove_finished
        )
        return step, state, results

    # The number of rows (axis 0) shrinks, and lengths (axis 2) grow.
    invariants = tf.nest.map_structure(
        lambda x: tf.TensorShape(
            [None if axis in (0, 2) else size for axis, size in enumerate(x.shape)]
        ),
        (tf.constant(0), state, results),
    )
    _, _, results = tf.while_loop(
        lambda step, state, results: tf.size(state.batch_index) > 0,
        body,
        (tf.constant(0), state, results),
        shape_invariants=invariants,
    )
    return Hypotheses(
        results.tokens[IDS], results.scores, results.tokens.get(LOG_PROBS)
    )
