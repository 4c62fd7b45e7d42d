"""The steps of a search, one by one, on numbers worked by hand."""

import math
import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.decoding.beam_search_state import Found, Scored, State
from t2t_keras.decoding.beam_search_steps import (
    choose_at_random,
    choose_best,
    constrain,
    extend,
    is_unfinished,
    keep_finished,
    keep_unfinished,
    length_limits,
    record,
    results_of,
)
from t2t_keras.decoding.constraints import IMPOSSIBLE
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.token_history import IDS, LOG_PROBS

STEP = tf.constant(2)


def state(log_probs, tokens, done_scores=None, done_tokens=None, limit=9, row=None):
    """Returns a state after two steps; `tokens` is `[rows, beam, 2]`."""
    rows, beam = np.shape(log_probs)
    if done_scores is None:
        done_scores = np.full([rows, beam], IMPOSSIBLE)
        done_tokens = np.zeros([rows, beam, 2])
    return State(
        row=tf.constant(range(rows) if row is None else row),
        seed=tf.range(rows),
        limit=tf.fill([rows], limit),
        prefix=tf.zeros([rows, 0], tf.int32),
        cache=tf.zeros([rows]),
        ancestors=tf.cast(np.tile(np.eye(beam, dtype=bool), [rows, 1, 2]), tf.bool),
        tokens={IDS: tf.constant(tokens, tf.int32)},
        log_probs=tf.constant(log_probs, tf.float32),
        done_tokens={IDS: tf.constant(done_tokens, tf.int32)},
        done_scores=tf.constant(done_scores, tf.float32),
    )


def scored(probabilities):
    """Returns what models say that give these probabilities, `[rows, beam, vocab]`."""
    probabilities = np.asarray(probabilities, np.float32)
    rows, beam, _ = probabilities.shape
    logits = tf.math.log(probabilities) + 3.0
    log_sum = tf.reduce_logsumexp(logits, axis=2, keepdims=True)
    ancestors = np.tile(np.eye(beam, dtype=bool), [rows, 1, 3])
    return Scored(logits, log_sum, tf.ones([rows]), tf.constant(ancestors))


# Two beams over the vocabulary: padding, start, end, and three words.
STATE = state([[math.log(0.5), math.log(0.3)]], [[[3, 4], [5, 3]]])
SCORED = scored([[[1e-9, 1e-9, 0.1, 0.6, 0.2, 0.1], [1e-9, 1e-9, 0.7, 0.1, 0.1, 0.1]]])
BEAMS = SearchOptions(2, length_penalty=0.0)


def test_limits_are_source_lengths_plus_extra_within_other_bounds():
    source = tf.constant([[5, 2, 0, 0], [5, 6, 7, 2]])
    no_prefix = tf.zeros([2, 0], tf.int32)

    def limits(prefix=no_prefix, **options):
        return length_limits(source, prefix, SearchOptions(**options)).numpy().tolist()

    assert limits(max_extra_length=3) == [5, 7]
    assert limits(max_extra_length=3, max_output_tokens=6) == [5, 6]
    assert limits(max_extra_length=3, min_length=6) == [7, 7]
    prefix = tf.constant([[4, 4, 4, 4, 4, 4], [4, 0, 0, 0, 0, 0]])
    assert limits(prefix, max_extra_length=3) == [7, 7]


def test_best_candidates_of_all_beams_come_in_order():
    choice = choose_best(SCORED, STEP, STATE, BEAMS)
    np.testing.assert_array_equal(choice.parents, [[0, 1, 0, 0]])
    np.testing.assert_array_equal(choice.tokens, [[3, 2, 4, 2]])
    np.testing.assert_allclose(np.exp(choice.log_probs), [[0.3, 0.21, 0.1, 0.05]], 1e-5)


def test_broken_rows_offer_no_candidate():
    broken = SCORED._replace(log_sum=tf.fill([1, 2, 1], math.nan))
    choice = choose_best(broken, STEP, STATE, BEAMS)
    assert (choice.log_probs.numpy() < IMPOSSIBLE / 2).all()
    after = keep_unfinished(STATE, broken, choice, extend(STATE, choice), BEAMS)
    assert np.isnan(after.log_probs).all()


def test_draws_stay_in_their_beam():
    options = SearchOptions(2, sample=True, top_k=1)
    choice = choose_at_random(SCORED, STEP, STATE, options)
    np.testing.assert_array_equal(choice.parents, [[0, 1]])
    np.testing.assert_array_equal(choice.tokens, [[3, 2]])
    np.testing.assert_allclose(np.exp(choice.log_probs), [[0.3, 0.21]], 1e-5)


def test_constraints_are_applied_together():
    options = SearchOptions(2, min_length=3, no_repeat_ngram=2)
    repeats = state([[0.0, 0.0]], [[[3, 3], [5, 3]]])
    logits = constrain(SCORED.logits, STEP, repeats, options).numpy()
    impossible = logits < IMPOSSIBLE / 2
    # No end yet; after 3 3 another 3 would repeat the bigram 3 3.
    np.testing.assert_array_equal(impossible[0, :, 2], [True, True])
    np.testing.assert_array_equal(impossible[0, :, 3], [True, False])
    assert impossible.sum() == 3


CHOICE = choose_best(SCORED, STEP, STATE, BEAMS)
TOKENS = {IDS: tf.constant([[[3, 4, 3], [5, 3, 2], [3, 4, 4], [3, 4, 2]]])}


def test_candidates_continue_the_tokens_of_their_parents():
    np.testing.assert_array_equal(extend(STATE, CHOICE)[IDS], TOKENS[IDS])
    zeros = tf.zeros([1, 2, 2])
    with_scores = STATE._replace(tokens={**STATE.tokens, LOG_PROBS: zeros})
    scores = extend(with_scores, CHOICE)[LOG_PROBS][0, :, 2]
    np.testing.assert_allclose(np.exp(scores), [0.6, 0.7, 0.2, 0.1], 1e-5)


def test_only_ends_among_the_first_candidates_are_finished():
    after = keep_finished(STEP, STATE, CHOICE, TOKENS, BEAMS)
    # The end in the fourth place is not among the two that would be kept as beams.
    np.testing.assert_allclose(np.exp(after.done_scores), [[0.21, 0.0]], 1e-5)
    np.testing.assert_array_equal(after.done_tokens[IDS][0, 0], [5, 3, 2])
    penalized = keep_finished(STEP, STATE, CHOICE, TOKENS, SearchOptions(2))
    expected = math.log(0.21) / (8 / 6) ** 0.6
    assert float(penalized.done_scores[0, 0]) == pytest.approx(expected, rel=1e-5)


def test_better_finished_hypotheses_push_out_worse_ones():
    before = STATE._replace(
        done_scores=tf.constant([[-0.5, -3.0]]),
        done_tokens={IDS: tf.constant([[[6, 2], [7, 2]]])},
    )
    after = keep_finished(STEP, before, CHOICE, TOKENS, BEAMS)
    np.testing.assert_array_equal(after.done_tokens[IDS], [[[6, 2, 0], [5, 3, 2]]])


def test_best_unfinished_candidates_are_the_next_beams():
    after = keep_unfinished(STATE, SCORED, CHOICE, TOKENS, BEAMS)
    np.testing.assert_array_equal(after.tokens[IDS], [[[3, 4, 3], [3, 4, 4]]])
    np.testing.assert_allclose(np.exp(after.log_probs), [[0.3, 0.1]], 1e-5)
    # Both descend from the first beam.
    np.testing.assert_array_equal(after.ancestors, [[[1, 0, 1, 0, 1, 0]] * 2])
    np.testing.assert_array_equal(after.cache, SCORED.cache)


@pytest.mark.parametrize(
    ("best", "done", "options", "expected"),
    [
        (-1.0, [-2.0, -3.0], {}, True),
        (-2.5, [-2.0, -3.0], {}, False),
        (-2.5, [-2.0, -3.0], {"n_best": 2}, True),
        # (5 + 9) / 6 to the power of 1 is the largest penalty: -2.5 may become -1.07.
        (-2.5, [-2.0, -3.0], {"length_penalty": 1.0}, True),
        (-5.0, [-2.0, -3.0], {"length_penalty": 1.0}, False),
        (math.nan, [-2.0, -3.0], {}, False),
        (-2.5, [-2.0, -3.0], {"sample": True}, True),
        (2 * IMPOSSIBLE, [-2.0, -3.0], {"sample": True}, False),
    ],
)
def test_rows_go_on_while_they_may_find_something_better(best, done, options, expected):
    beams = state([[best, best - 1]], [[[3, 4], [5, 3]]], [done], [[[6, 2], [7, 2]]])
    options = SearchOptions(2, **{"length_penalty": 0.0, **options})
    assert bool(is_unfinished(STEP, beams, options)[0]) is expected
    assert not is_unfinished(tf.constant(9), beams, options)[0]


def test_greedy_search_goes_on_until_its_sentence_ends():
    options = SearchOptions(1)
    assert is_unfinished(STEP, state([[-50.0]], [[[3, 4]]]), options)[0]
    ended = state([[-1.0]], [[[3, 4]]], [[-60.0]], [[[3, 2]]])
    assert not is_unfinished(STEP, ended, options)[0]


def test_results_are_finished_hypotheses_or_those_that_were_cut_off():
    rows = state(
        [[-1.0, -2.0], [-1.0, -2.0], [math.nan, math.nan]],
        [[[3, 4], [5, 3]]] * 3,
        [[-4.0, IMPOSSIBLE], [IMPOSSIBLE, IMPOSSIBLE], [-4.0, -5.0]],
        [[[6, 2], [0, 0]]] * 3,
    )
    tokens, scores = results_of(STEP, rows, BEAMS)
    expected = [[[6, 0], [0, 0]], [[3, 4], [5, 3]], [[0, 0], [0, 0]]]
    np.testing.assert_array_equal(tokens[IDS], expected)
    np.testing.assert_allclose(scores[:2], [[-4, IMPOSSIBLE], [-1, -2]])
    assert np.isnan(scores[2]).all()
    drawn, scores = results_of(STEP, rows, SearchOptions(2, 0.0, sample=True))
    np.testing.assert_array_equal(drawn[IDS][0], [[3, 4], [5, 3]])


def test_results_are_written_to_their_places():
    # The first two of four rows have left; these are the others, the last one first.
    rows = state([[-1.0]] * 2, [[[3, 4]], [[5, 6]]], row=[3, 2])
    found = Found({IDS: tf.zeros([4, 1, 5], tf.int32)}, tf.zeros([4, 1]))
    results = Found(rows.tokens, tf.constant([[-1.0], [-2.0]]))
    found = record(rows, results, tf.constant([True, False]), found)
    np.testing.assert_array_equal(found.tokens[IDS][:, 0, :2].numpy()[3], [3, 4])
    np.testing.assert_array_equal(found.scores[:, 0], [0, 0, 0, -1])
    assert found.tokens[IDS].shape == (4, 1, 5)
    assert not found.tokens[IDS].numpy()[:3].any()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
