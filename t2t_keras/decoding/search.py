"""Beam search over a decoder with cached keys and values (section 6.1).

All beams of a sentence are query positions of one row. Their keys are appended to
the row's cache step by step and never moved: which of them a beam descends from is
kept as a boolean mask, so a step copies no cache when beams change places, and the
encoder's keys and values are shared by all beams. Greedy search is a beam of 1.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.layers.masks import padding_mask
from t2t_keras.tokens import BOS_ID, EOS_ID, PAD_ID
from t2t_keras.transformer import Transformer

_IMPOSSIBLE = -1e9


class Hypotheses(NamedTuple):
    """What a search has found.

    Attributes:
        ids: `[batch, beam, length]` int32, without start and end, 0 for padding; the
            best first.
        scores: `[batch, beam]` float32, log-probability over length penalty.
    """

    ids: tf.Tensor
    scores: tf.Tensor


class _State(NamedTuple):
    """The sentences still searched, `rows` of them.

    Attributes:
        row: `[rows]` int32, each one's place in the batch.
        limit: `[rows]` int32, the most tokens each may have, the end included.
        memory_mask: `[rows, 1, 1, source]` bool.
        cache: Keys and values, as of `Transformer.empty_cache`.
        ancestors: `[rows, beam, step * beam]` bool, the cached positions that each
            beam descends from.
        ids: `[rows, beam, step]` int32, tokens of the beams.
        log_probs: `[rows, beam]` float32, theirs.
        done_ids: `[rows, beam, step]` int32, tokens of the finished hypotheses.
        done_scores: `[rows, beam]` float32, theirs.
    """

    row: tf.Tensor
    limit: tf.Tensor
    memory_mask: tf.Tensor
    cache: Any
    ancestors: tf.Tensor
    ids: tf.Tensor
    log_probs: tf.Tensor
    done_ids: tf.Tensor
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


def beam_search(
    model: Transformer,
    source: tf.Tensor,
    beam_size: int = 4,
    length_penalty: float = 0.6,
    max_extra_length: int = 50,
    n_best: int = 1,
) -> Hypotheses:
    """Finds the likeliest translations. Meant to be called in a `tf.function`.

    A sentence is finished when no beam can, at any length it may still reach, score
    higher than its `n_best`-th finished hypothesis; it then leaves the batch.

    Args:
        model: The model.
        source: `[batch, source]` int32 ids, each row ended and padded.
        beam_size: Number of beams. Default 4.
        length_penalty: Exponent of the length penalty. Default 0.6.
        max_extra_length: How many tokens longer than its source an output may be.
            Default 50.
        n_best: How many hypotheses must be the best that there are. Default 1.

    Returns:
        `beam_size` hypotheses of each row, the best first. One that reached its
        greatest length is cut there.
    """
    batch = tf.shape(source)[0]
    limit = tf.math.count_nonzero(source, axis=1, dtype=tf.int32) + max_extra_length
    steps = tf.reduce_max(tf.concat([limit, [0]], axis=0))
    vocab_size = model.target_embedding.vocab_size
    candidates = min(2 * beam_size, vocab_size)
    # Padding and start are no output, whatever the model scores them.
    forbidden = tf.scatter_nd(
        [[PAD_ID], [BOS_ID]], [_IMPOSSIBLE, _IMPOSSIBLE], [vocab_size]
    )

    def search_step(step: tf.Tensor, state: _State) -> _State:
        previous = tf.cond(
            step > 0,
            lambda: state.ids[:, :, -1],
            lambda: tf.fill(tf.shape(state.log_probs), BOS_ID),
        )
        itself = tf.eye(beam_size, batch_shape=[tf.shape(previous)[0]], dtype=tf.bool)
        ancestors = tf.concat([state.ancestors, itself], axis=2)
        logits, cache = model.decode(
            previous,
            None,
            state.memory_mask,
            self_attention_mask=ancestors[:, tf.newaxis],
            positions=tf.fill([beam_size], step),
            cache=state.cache,
        )
        logits = tf.cast(logits, tf.float32) + forbidden
        # The best of each beam are picked before anything is normalized.
        best, tokens = tf.math.top_k(logits, candidates)
        log_sum = tf.reduce_logsumexp(logits, axis=2, keepdims=True)
        log_probs = state.log_probs[:, :, tf.newaxis] + best - log_sum
        # [rows, beam, candidates] -> [rows, beam * candidates]
        flat = [tf.shape(log_probs)[0], beam_size * candidates]
        log_probs, chosen = tf.math.top_k(
            tf.reshape(log_probs, flat), min(2 * beam_size, beam_size * candidates)
        )
        tokens = tf.gather(tf.reshape(tokens, flat), chosen, batch_dims=1)
        parents = chosen // candidates
        ids = tf.concat(
            [tf.gather(state.ids, parents, batch_dims=1), tokens[:, :, tf.newaxis]],
            axis=2,
        )

        ends = tokens == EOS_ID
        scores = log_probs / length_penalty_of(step + 1, length_penalty)
        # An end counts where it would have been kept as a beam, so that a beam of 1 is
        # greedy; and a beam that began as a copy of the first is no hypothesis.
        is_kept = tf.range(tf.shape(tokens)[1]) < beam_size
        is_finished = ends & is_kept & (log_probs > _IMPOSSIBLE / 2)
        done_scores = tf.concat(
            [state.done_scores, tf.where(is_finished, scores, _IMPOSSIBLE)], axis=1
        )
        done_ids = tf.concat(
            [tf.pad(state.done_ids, [[0, 0], [0, 0], [0, 1]]), ids], axis=1
        )
        done_scores, kept = tf.math.top_k(done_scores, beam_size)
        done_ids = tf.gather(done_ids, kept, batch_dims=1)

        alive = tf.where(ends, 2 * _IMPOSSIBLE, log_probs)
        alive_log_probs, kept = tf.math.top_k(alive, beam_size)
        parents = tf.gather(parents, kept, batch_dims=1)
        return state._replace(
            cache=cache,
            ancestors=tf.gather(ancestors, parents, batch_dims=1),
            ids=tf.gather(ids, kept, batch_dims=1),
            log_probs=alive_log_probs,
            done_ids=done_ids,
            done_scores=done_scores,
        )

    def is_unfinished(step: tf.Tensor, state: _State) -> tf.Tensor:
        """Tells which rows may still find something better, `[rows]` bool."""
        if beam_size == 1:  # Greedy search ends with its sentence.
            return (step < state.limit) & (state.done_scores[:, 0] < _IMPOSSIBLE / 2)
        most = length_penalty_of(state.limit, length_penalty)
        reachable = state.log_probs[:, 0] / most
        return (step < state.limit) & (reachable > state.done_scores[:, n_best - 1])

    def record(
        step: tf.Tensor, state: _State, found: Hypotheses, rows: tf.Tensor
    ) -> Hypotheses:
        """Writes the results of some rows into those of the whole batch."""
        # A row that was cut off before any end has unfinished hypotheses only.
        unfinished = state.log_probs / length_penalty_of(step, length_penalty)
        none_done = state.done_scores[:, :1] < _IMPOSSIBLE / 2
        scores = tf.where(none_done, unfinished, state.done_scores)
        ids = tf.where(none_done[:, :, tf.newaxis], state.ids, state.done_ids)
        ids = tf.where(ids == EOS_ID, PAD_ID, ids)
        ids = tf.pad(
            tf.boolean_mask(ids, rows), [[0, 0], [0, 0], [0, steps - tf.shape(ids)[2]]]
        )
        place = tf.boolean_mask(state.row, rows)[:, tf.newaxis]
        scores = tf.boolean_mask(scores, rows)
        return Hypotheses(
            tf.tensor_scatter_nd_update(found.ids, place, ids),
            tf.tensor_scatter_nd_update(found.scores, place, scores),
        )

    def body(step: tf.Tensor, state: _State, found: Hypotheses) -> Any:
        state = search_step(step, state)
        step += 1
        unfinished = is_unfinished(step, state)

        def leave() -> tuple[_State, Hypotheses]:
            stay = tf.where(unfinished)[:, 0]
            shrunk = tf.nest.map_structure(lambda x: tf.gather(x, stay), state)
            return shrunk, record(step, state, found, ~unfinished)

        state, found = tf.cond(tf.reduce_all(unfinished), lambda: (state, found), leave)
        return step, state, found

    memory = model.encode(source)
    cache = model.empty_cache(memory)
    beams = tf.fill([batch, beam_size], 0.0)
    first_only = tf.one_hot(0, beam_size, on_value=0.0, off_value=_IMPOSSIBLE)
    state = _State(
        row=tf.range(batch),
        limit=limit,
        memory_mask=padding_mask(source),
        cache=cache,
        ancestors=tf.zeros([batch, beam_size, 0], tf.bool),
        ids=tf.zeros([batch, beam_size, 0], tf.int32),
        log_probs=beams + first_only,
        done_ids=tf.zeros([batch, beam_size, 0], tf.int32),
        done_scores=beams + _IMPOSSIBLE,
    )
    found = Hypotheses(tf.zeros([batch, beam_size, steps], tf.int32), beams)
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
    return found
