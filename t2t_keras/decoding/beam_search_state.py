"""What a search carries from step to step, and what it returns."""

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.decoding.constraints import IMPOSSIBLE
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.token_history import History, blank


class Hypotheses(NamedTuple):
    """The result of a search.

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


class State(NamedTuple):
    """The sentences that are still searched, `rows` of them.

    Attributes:
        row: `[rows]` int32, the place of each in the batch.
        seed: `[rows]` int32, the random seed of each.
        limit: `[rows]` int32, the maximum number of tokens of each, the end included.
        prefix: `[rows, prefix]` int32, what the outputs begin with, 0 for padding.
        cache: Keys and values, as returned by `Ensemble.start`.
        ancestors: `[rows, beam, step * beam]` bool, the cached positions that each
            beam descends from.
        tokens: The tokens of the beams.
        log_probs: `[rows, beam]` float32, the log-probabilities of the beams, best
            first; below `IMPOSSIBLE / 2` where there is no beam. NaN in a row that is
            given up, since the models computed numbers that are not finite.
        done_tokens: The tokens of the finished hypotheses.
        done_scores: `[rows, beam]` float32, the scores of the finished hypotheses, best
            first; below `IMPOSSIBLE / 2` where there is none.
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


class Found(NamedTuple):
    """The results of the whole batch; see `Hypotheses`.

    Attributes:
        tokens: `[batch, beam, length]`.
        scores: `[batch, beam]` float32.
    """

    tokens: History
    scores: tf.Tensor


class Scored(NamedTuple):
    """What the models say about the next token of each beam.

    Attributes:
        logits: `[rows, beam, vocab_size]` float32, not normalized.
        log_sum: `[rows, beam, 1]` float32, log(sum(exp(logits))). It is not finite if
            some of the logits are not.
        cache: The cache with this step appended.
        ancestors: `[rows, beam, (step + 1) * beam]` bool, likewise.
    """

    logits: tf.Tensor
    log_sum: tf.Tensor
    cache: Any
    ancestors: tf.Tensor


class Choice(NamedTuple):
    """Candidates: beams with one more token, the best first.

    Attributes:
        parents: `[rows, n]` int32, the beam that each candidate continues.
        tokens: `[rows, n]` int32, the token that it continues it with.
        log_probs: `[rows, n]` float32, the log-probability of the whole.
    """

    parents: tf.Tensor
    tokens: tf.Tensor
    log_probs: tf.Tensor


def initial_state(
    ensemble: Ensemble,
    source: tf.Tensor,
    limit: tf.Tensor,
    prefix: tf.Tensor,
    row_seeds: tf.Tensor | None,
    options: SearchOptions,
    with_token_scores: bool,
) -> State:
    """Encodes the sources and returns the state before the first step.

    Args:
        ensemble: The models.
        source: `[batch, source]` int32 ids.
        limit: See `State`.
        prefix: See `State`.
        row_seeds: As `seed` of `State`. Default: the places in the batch.
        options: The search options.
        with_token_scores: Whether to keep the log-probability of each token.
    """
    batch, beam_size = tf.shape(source)[0], options.beam_size
    beams = tf.fill([batch, beam_size], 0.0)
    # Beams begin alike: all but the first would repeat it.
    others = 0.0 if options.sample else IMPOSSIBLE
    return State(
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
