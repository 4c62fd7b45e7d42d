"""Each step of the search against hand-computed numbers."""

import math
import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.beam_search_state import BatchResults, Predictions, State
from t2t_keras.decoding.beam_search_steps import (
    apply_constraints,
    collect_results,
    extend_tokens,
    force_end,
    sample_candidates,
    select_best,
    update_beams,
    update_finished,
    write_results,
)
from t2t_keras.decoding.constraints import IMPOSSIBLE
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.search_stopping import is_unfinished, max_output_lengths
from t2t_keras.decoding.token_history import IDS, LOG_PROBS

STEP = tf.constant(2)
HEURISTIC = {
    "early_stopping": "heuristic",
    "length_penalty": 1.0,
    "length_penalty_beta": 0.0,
}


class GatheredCache:
    """Stands in for the models of a search: each beam has a cache of its own."""

    def reorder(self, cache, parents):
        return tf.gather(cache, parents, batch_dims=1)


def state(
    log_probs, tokens, finished_scores=None, finished_tokens=None, limit=9, row=None
):
    """Returns a state after two steps; `tokens` is `[rows, beam, 2]`."""
    rows, beam = np.shape(log_probs)
    if finished_scores is None:
        finished_scores = np.full([rows, beam], IMPOSSIBLE)
        finished_tokens = np.zeros([rows, beam, 2])
    return State(
        batch_index=tf.constant(range(rows) if row is None else row),
        seed=tf.range(rows),
        max_length=tf.fill([rows], limit),
        prefix=tf.zeros([rows, 0], tf.int32),
        cache=tf.zeros([rows, beam]),
        ancestors=tf.cast(np.tile(np.eye(beam, dtype=bool), [rows, 1, 2]), tf.bool),
        tokens={IDS: tf.constant(tokens, tf.int32)},
        log_probs=tf.constant(log_probs, tf.float32),
        finished_tokens={IDS: tf.constant(finished_tokens, tf.int32)},
        finished_scores=tf.constant(finished_scores, tf.float32),
    )


def predictions_of(probabilities):
    """Returns predictions with the given probabilities, `[rows, beam, vocab]`."""
    probabilities = np.asarray(probabilities, np.float32)
    rows, beam, _ = probabilities.shape
    logits = tf.math.log(probabilities) + 3.0
    log_sum = tf.reduce_logsumexp(logits, axis=2, keepdims=True)
    ancestors = np.tile(np.eye(beam, dtype=bool), [rows, 1, 3])
    cache = tf.tile([tf.range(beam)], [rows, 1])
    return Predictions(logits, log_sum, cache, tf.constant(ancestors))


# Two beams over the vocabulary: padding, start, end, and three words.
STATE = state([[math.log(0.5), math.log(0.3)]], [[[3, 4], [5, 3]]])
PREDICTIONS = predictions_of(
    [[[1e-9, 1e-9, 0.1, 0.6, 0.2, 0.1], [1e-9, 1e-9, 0.7, 0.1, 0.1, 0.1]]]
)
BEAMS = SearchOptions(2, length_penalty=0.0)


def test_max_output_lengths_respect_all_length_options():
    source = tf.constant([[5, 2, 0, 0], [5, 6, 7, 2]])
    no_prefix = tf.zeros([2, 0], tf.int32)

    def limits(prefix=no_prefix, **options):
        return (
            max_output_lengths(source, prefix, SearchOptions(**options))
            .numpy()
            .tolist()
        )

    assert limits(max_extra_length=3) == [5, 7]
    assert limits(max_extra_length=3, max_output_tokens=6) == [5, 6]
    assert limits(max_extra_length=3, max_length_factor=2.5) == [8, 13]
    assert limits(max_extra_length=3, min_length=6) == [7, 7]
    prefix = tf.constant([[4, 4, 4, 4, 4, 4], [4, 0, 0, 0, 0, 0]])
    assert limits(prefix, max_extra_length=3) == [7, 7]


def test_select_best_sorts_candidates_of_all_beams():
    candidates = select_best(PREDICTIONS, STEP, STATE, BEAMS)
    np.testing.assert_array_equal(candidates.parents, [[0, 1, 0, 0]])
    np.testing.assert_array_equal(candidates.tokens, [[3, 2, 4, 2]])
    np.testing.assert_allclose(
        np.exp(candidates.log_probs), [[0.3, 0.21, 0.1, 0.05]], 1e-5
    )


def test_non_finite_predictions_give_no_candidates():
    broken = PREDICTIONS._replace(log_sum=tf.fill([1, 2, 1], math.nan))
    candidates = select_best(broken, STEP, STATE, BEAMS)
    assert (candidates.log_probs.numpy() < IMPOSSIBLE / 2).all()
    tokens = extend_tokens(STATE, candidates)
    after = update_beams(GatheredCache(), STATE, broken, candidates, tokens, BEAMS)
    assert np.isnan(after.log_probs).all()


def test_samples_stay_in_their_beam():
    options = SearchOptions(2, sample=True, top_k=1)
    candidates = sample_candidates(PREDICTIONS, STEP, STATE, options)
    np.testing.assert_array_equal(candidates.parents, [[0, 1]])
    np.testing.assert_array_equal(candidates.tokens, [[3, 2]])
    np.testing.assert_allclose(np.exp(candidates.log_probs), [[0.3, 0.21]], 1e-5)


def test_constraints_combine():
    options = SearchOptions(2, min_length=3, no_repeat_ngram=2)
    repeats = state([[0.0, 0.0]], [[[3, 3], [5, 3]]])
    logits = apply_constraints(PREDICTIONS.logits, STEP, repeats, options).numpy()
    impossible = logits < IMPOSSIBLE / 2
    # The end token is blocked; after 3 3, another 3 would repeat the bigram 3 3.
    np.testing.assert_array_equal(impossible[0, :, 2], [True, True])
    np.testing.assert_array_equal(impossible[0, :, 3], [True, False])
    assert impossible.sum() == 3


def test_disabled_unknown_token_is_blocked_unless_a_prefix_forces_it():
    options = SearchOptions(2, disable_unk=True, min_length=3)
    logits = apply_constraints(PREDICTIONS.logits, STEP, STATE, options).numpy()
    impossible = logits < IMPOSSIBLE / 2
    np.testing.assert_array_equal(np.nonzero(impossible[0, 0])[0], [2, 3])
    forced = STATE._replace(prefix=tf.constant([[3, 3, 3]]))
    logits = apply_constraints(PREDICTIONS.logits, STEP, forced, options).numpy()
    impossible = logits < IMPOSSIBLE / 2
    np.testing.assert_array_equal(np.nonzero(~impossible[0, 0])[0], [3])


CANDIDATES = select_best(PREDICTIONS, STEP, STATE, BEAMS)
TOKENS = {IDS: tf.constant([[[3, 4, 3], [5, 3, 2], [3, 4, 4], [3, 4, 2]]])}


def test_extend_tokens_appends_to_the_parent_beam():
    np.testing.assert_array_equal(extend_tokens(STATE, CANDIDATES)[IDS], TOKENS[IDS])
    zeros = tf.zeros([1, 2, 2])
    with_scores = STATE._replace(tokens={**STATE.tokens, LOG_PROBS: zeros})
    scores = extend_tokens(with_scores, CANDIDATES)[LOG_PROBS][0, :, 2]
    np.testing.assert_allclose(np.exp(scores), [0.6, 0.7, 0.2, 0.1], 1e-5)


def test_only_ends_among_first_beam_size_candidates_finish():
    after = update_finished(STEP, STATE, CANDIDATES, TOKENS, BEAMS)
    # The fourth candidate ends too, but only the first two count.
    np.testing.assert_allclose(np.exp(after.finished_scores), [[0.21, 0.0]], 1e-5)
    np.testing.assert_array_equal(after.finished_tokens[IDS][0, 0], [5, 3, 2])
    penalized = update_finished(STEP, STATE, CANDIDATES, TOKENS, SearchOptions(2))
    expected = math.log(0.21) / (8 / 6) ** 0.6
    assert float(penalized.finished_scores[0, 0]) == pytest.approx(expected, rel=1e-5)
    options = SearchOptions(2, length_penalty_beta=0)
    penalized = update_finished(STEP, STATE, CANDIDATES, TOKENS, options)
    expected = math.log(0.21) / 3**0.6
    assert float(penalized.finished_scores[0, 0]) == pytest.approx(expected, rel=1e-5)


def test_beams_are_ended_at_the_maximum_length_without_changing_their_scores():
    rows = state([[-1.0, -2.0]], [[[3, 4], [5, 3]]], limit=3)
    ended = force_end(CANDIDATES, STEP, rows)
    np.testing.assert_array_equal(ended.tokens, [[2, 2, 2, 2]])
    np.testing.assert_array_equal(ended.parents, [[0, 1, 0, 1]])
    np.testing.assert_allclose(ended.log_probs, [[-1, -2, *[2 * IMPOSSIBLE] * 2]])
    after = update_finished(STEP, rows, ended, extend_tokens(rows, ended), BEAMS)
    np.testing.assert_allclose(after.finished_scores, [[-1, -2]])
    np.testing.assert_array_equal(after.finished_tokens[IDS], [[[3, 4, 2], [5, 3, 2]]])
    earlier = force_end(CANDIDATES, STEP, rows._replace(max_length=tf.constant([4])))
    np.testing.assert_array_equal(earlier.tokens, CANDIDATES.tokens)


def test_better_finished_hypotheses_replace_worse_ones():
    before = STATE._replace(
        finished_scores=tf.constant([[-0.5, -3.0]]),
        finished_tokens={IDS: tf.constant([[[6, 2], [7, 2]]])},
    )
    after = update_finished(STEP, before, CANDIDATES, TOKENS, BEAMS)
    np.testing.assert_array_equal(after.finished_tokens[IDS], [[[6, 2, 0], [5, 3, 2]]])


def test_best_unfinished_candidates_become_the_next_beams():
    after = update_beams(GatheredCache(), STATE, PREDICTIONS, CANDIDATES, TOKENS, BEAMS)
    np.testing.assert_array_equal(after.tokens[IDS], [[[3, 4, 3], [3, 4, 4]]])
    np.testing.assert_allclose(np.exp(after.log_probs), [[0.3, 0.1]], 1e-5)
    # Both descend from the first beam.
    np.testing.assert_array_equal(after.ancestors, [[[1, 0, 1, 0, 1, 0]] * 2])
    np.testing.assert_array_equal(after.cache, [[0, 0]])


@pytest.mark.parametrize(
    ("best", "done", "options", "expected"),
    [
        (-1.0, [-2.0, -3.0], {}, True),
        (-2.5, [-2.0, -3.0], {}, False),
        (-2.5, [-2.0, -3.0], {"n_best": 2}, True),
        # (5 + 9) / 6 to the power of 1 is the largest penalty: -2.5 can become -1.07.
        (-2.5, [-2.0, -3.0], {"length_penalty": 1.0}, True),
        (-5.0, [-2.0, -3.0], {"length_penalty": 1.0}, False),
        # 9 to the power of 1: -17 can become -1.89.
        (-17, [-2.0, -3.0], {"length_penalty": 1.0, "length_penalty_beta": 0.0}, True),
        (-19, [-2.0, -3.0], {"length_penalty": 1.0, "length_penalty_beta": 0}, False),
        # At its length, 2, -5 is -2.5, and -7 is -3.5.
        (-5.0, [-2.0, -3.0], HEURISTIC, True),
        (-7.0, [-2.0, -3.0], HEURISTIC, False),
        (-7.0, [-2.0, IMPOSSIBLE], HEURISTIC, True),
        (-1.0, [-2.0, -3.0], {"early_stopping": "first"}, False),
        (-1.0, [-2.0, IMPOSSIBLE], {"early_stopping": "first"}, True),
        (math.nan, [-2.0, -3.0], {}, False),
        (-2.5, [-2.0, -3.0], {"sample": True}, True),
        (2 * IMPOSSIBLE, [-2.0, -3.0], {"sample": True}, False),
    ],
)
def test_row_is_unfinished_while_it_can_improve(best, done, options, expected):
    beams = state([[best, best - 1]], [[[3, 4], [5, 3]]], [done], [[[6, 2], [7, 2]]])
    options = SearchOptions(2, **{"length_penalty": 0.0, **options})
    assert bool(is_unfinished(STEP, beams, options)[0]) is expected
    assert not is_unfinished(tf.constant(9), beams, options)[0]


def test_greedy_search_stops_at_the_first_end_token():
    options = SearchOptions(1)
    assert is_unfinished(STEP, state([[-50.0]], [[[3, 4]]]), options)[0]
    ended = state([[-1.0]], [[[3, 4]]], [[-60.0]], [[[3, 2]]])
    assert not is_unfinished(STEP, ended, options)[0]


def test_results_are_finished_hypotheses_or_truncated_beams():
    rows = state(
        [[-1.0, -2.0], [-1.0, -2.0], [math.nan, math.nan]],
        [[[3, 4], [5, 3]]] * 3,
        [[-4.0, IMPOSSIBLE], [IMPOSSIBLE, IMPOSSIBLE], [-4.0, -5.0]],
        [[[6, 2], [0, 0]]] * 3,
    )
    tokens, scores = collect_results(STEP, rows, BEAMS)
    expected = [[[6, 0], [0, 0]], [[3, 4], [5, 3]], [[0, 0], [0, 0]]]
    np.testing.assert_array_equal(tokens[IDS], expected)
    np.testing.assert_allclose(scores[:2], [[-4, IMPOSSIBLE], [-1, -2]])
    assert np.isnan(scores[2]).all()
    sampled, scores = collect_results(STEP, rows, SearchOptions(2, 0.0, sample=True))
    np.testing.assert_array_equal(sampled[IDS][0], [[3, 4], [5, 3]])


def test_write_results_writes_rows_to_their_batch_index():
    # Two of four rows have left the batch; the other two are in reverse order.
    rows = state([[-1.0]] * 2, [[[3, 4]], [[5, 6]]], row=[3, 2])
    found = BatchResults({IDS: tf.zeros([4, 1, 5], tf.int32)}, tf.zeros([4, 1]))
    results = BatchResults(rows.tokens, tf.constant([[-1.0], [-2.0]]))
    found = write_results(rows, results, tf.constant([True, False]), found)
    np.testing.assert_array_equal(found.tokens[IDS][:, 0, :2].numpy()[3], [3, 4])
    np.testing.assert_array_equal(found.scores[:, 0], [0, 0, 0, -1])
    assert found.tokens[IDS].shape == (4, 1, 5)
    assert not found.tokens[IDS].numpy()[:3].any()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
