"""The tensors that a search carries from step to step, and its result."""

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.decoding.constraints import IMPOSSIBLE
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.token_history import History, padded_history


class Hypotheses(NamedTuple):
    """The result of a search.

    Attributes:
        ids: `[batch, beam, length]` int32 without start and end tokens, 0 for padding,
            in descending order of score.
        scores: `[batch, beam]` float32, log-probability divided by the length penalty.
            NaN in all of a row for which the models computed non-finite numbers. At
            most -1e9 where there are fewer hypotheses than beams.
        token_scores: `[batch, beam, length]` float32, the log-probability of each token
            and of the end token, unless the hypothesis was truncated; NaN for padding.
            None unless requested.
    """

    ids: tf.Tensor
    scores: tf.Tensor
    token_scores: tf.Tensor | None = None


class State(NamedTuple):
    """State of the sentences that are not finished, `rows` of them.

    Attributes:
        batch_index: `[rows]` int32, the index of each sentence in the batch.
        seed: `[rows]` int32, the random seed of each sentence.
        max_length: `[rows]` int32, the maximum number of tokens of each output, end
            token included.
        prefix: `[rows, prefix]` int32, the forced prefixes, 0 for padding.
        cache: The decoders' caches, as returned by `Ensemble.start`.
        ancestors: `[rows, beam, step * beam]` bool, the cached positions that each
            beam descends from.
        tokens: The tokens of the beams.
        log_probs: `[rows, beam]` float32, the log-probabilities of the beams in
            descending order; below `IMPOSSIBLE / 2` for unused beams. NaN in a row for
            which the models computed non-finite numbers, which ends its search.
        finished_tokens: The tokens of the finished hypotheses.
        finished_scores: `[rows, beam]` float32, the scores of the finished hypotheses
            in descending order; below `IMPOSSIBLE / 2` for unused entries.
    """

    batch_index: tf.Tensor
    seed: tf.Tensor
    max_length: tf.Tensor
    prefix: tf.Tensor
    cache: Any
    ancestors: tf.Tensor
    tokens: History
    log_probs: tf.Tensor
    finished_tokens: History
    finished_scores: tf.Tensor


class BatchResults(NamedTuple):
    """The results of the whole batch; see `Hypotheses`.

    Attributes:
        tokens: `[batch, beam, length]`.
        scores: `[batch, beam]` float32.
    """

    tokens: History
    scores: tf.Tensor


class Predictions(NamedTuple):
    """The models' predictions of the next token of each beam.

    Attributes:
        logits: `[rows, beam, vocab_size]` float32.
        log_sum: `[rows, beam, 1]` float32, log(sum(exp(logits))), which normalizes the
            logits. Non-finite if a logit is.
        cache: The cache with this step appended.
        ancestors: `[rows, beam, (step + 1) * beam]` bool, the cached positions that
            each beam descends from, including this step.
    """

    logits: tf.Tensor
    log_sum: tf.Tensor
    cache: Any
    ancestors: tf.Tensor


class Candidates(NamedTuple):
    """Beams extended by one token, in descending order of log-probability.

    Attributes:
        parents: `[rows, n]` int32, the beam that each candidate extends.
        tokens: `[rows, n]` int32, the token that it appends.
        log_probs: `[rows, n]` float32, the log-probability of the extended beam.
    """

    parents: tf.Tensor
    tokens: tf.Tensor
    log_probs: tf.Tensor


def initial_state(
    ensemble: Ensemble,
    source: tf.Tensor,
    max_lengths: tf.Tensor,
    prefix: tf.Tensor,
    row_seeds: tf.Tensor | None,
    options: SearchOptions,
    with_token_scores: bool,
) -> State:
    """Encodes the sources and returns the state before the first step.

    Args:
        ensemble: The models.
        source: `[batch, source]` int32 ids.
        max_lengths: `[batch]` int32, `max_length` of the state.
        prefix: `[batch, prefix]` int32, `prefix` of the state.
        row_seeds: `[batch]` int32, `seed` of the state. Default: the batch index.
        options: Search options.
        with_token_scores: Whether to keep the log-probability of each token.
    """
    batch, beam_size = tf.shape(source)[0], options.beam_size
    beams = tf.fill([batch, beam_size], 0.0)
    # All beams start with the same token: in a search, the others would be duplicates
    # of the first one.
    others = 0.0 if options.sample else IMPOSSIBLE
    return State(
        batch_index=tf.range(batch),
        seed=tf.range(batch) if row_seeds is None else row_seeds,
        max_length=max_lengths,
        prefix=prefix,
        cache=ensemble.start(source, beam_size),
        ancestors=tf.zeros([batch, beam_size, 0], tf.bool),
        tokens=padded_history([batch, beam_size, 0], with_token_scores),
        log_probs=beams + tf.one_hot(0, beam_size, 0.0, others),
        finished_tokens=padded_history([batch, beam_size, 0], with_token_scores),
        finished_scores=beams + IMPOSSIBLE,
    )
