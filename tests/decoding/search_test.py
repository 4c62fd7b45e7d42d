"""Beam search against a slow search in NumPy without a cache."""

import sys

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf

from t2t_keras import Transformer
from t2t_keras.decoding.search import beam_search, length_penalty_of
from t2t_keras.training.losses import LabelSmoothedCrossEntropy

VOCAB = 20


@pytest.fixture(scope="module")
def model():
    """A half-trained model: its sentences end, at various lengths, and it hesitates."""
    model = Transformer(
        VOCAB, num_layers=2, d_model=16, d_ff=32, num_heads=4, pre_norm=True, dropout=0
    )
    rng = np.random.default_rng(0)
    source = np.zeros([6400, 9], np.int32)
    target = np.zeros([6400, 12], np.int32)
    for row, out in zip(source, target, strict=True):
        length, extra = rng.integers(1, 9), rng.integers(0, 4)
        row[:length] = rng.integers(4, VOCAB, length)
        row[length] = 2
        copied = [*row[:length], *rng.choice(row[:length], extra), 2]
        out[: len(copied)] = copied
    inputs = {
        "source": source,
        "target": np.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=1),
    }
    model.compile(keras.optimizers.Adam(0.01), LabelSmoothedCrossEntropy())
    model.fit(inputs, target, batch_size=64, epochs=2, verbose=0)
    return model


def sources(seed, number=6):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 9, number)
    source = np.zeros((number, lengths.max()), np.int32)
    for row, length in zip(source, lengths, strict=True):
        row[: length - 1] = rng.integers(4, VOCAB, length - 1)
        row[length - 1] = 2
    return source


def log_probabilities(weights, source, tokens):
    target = np.array([tokens], np.int32)
    logits = reference.transformer(weights, source, target, 2, 4, 4, 4, pre_norm=True)[
        0, -1
    ]
    logits[:2] = -1e9
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


def slow_search(weights, source, beams, alpha, extra, n_best):
    """The same search, one hypothesis at a time, recomputing everything."""
    source = source[source > 0][None]
    limit = source.shape[1] + extra
    alive, done = [([1], 0.0)], []
    for step in range(limit):
        candidates = []
        for tokens, score in alive:
            log_p = log_probabilities(weights, source, tokens)
            candidates += [([*tokens, i], score + log_p[i]) for i in range(VOCAB)]
        candidates.sort(key=lambda c: -c[1])
        candidates = candidates[: 2 * beams]
        penalty = ((5 + step + 1) / 6) ** alpha
        done += [(t, s / penalty) for t, s in candidates[:beams] if t[-1] == 2]
        done = sorted(done, key=lambda c: -c[1])[:beams]
        alive = [c for c in candidates if c[0][-1] != 2][:beams]
        if beams == 1 and done:
            break
        best_possible = alive[0][1] / ((5 + limit) / 6) ** alpha
        if len(done) >= n_best and best_possible <= done[n_best - 1][1]:
            break
    if not done:
        done = [(t, s / ((5 + limit) / 6) ** alpha) for t, s in alive]
    return [([t for t in tokens[1:] if t != 2], score) for tokens, score in done]


def search(model, source, **arguments):
    function = tf.function(
        lambda source: beam_search(model, source, **arguments),
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
        autograph=False,
    )
    found = function(source)
    return [
        [
            ([int(t) for t in ids if t], float(score))
            for ids, score in zip(row_ids, row_scores, strict=True)
        ]
        for row_ids, row_scores in zip(
            found.ids.numpy(), found.scores.numpy(), strict=True
        )
    ]


@pytest.mark.parametrize(("beams", "n_best"), [(1, 1), (3, 1), (4, 4)])
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_the_search_equals_the_slow_one(model, beams, n_best, alpha):
    source = sources(seed=beams)
    found = search(
        model,
        source,
        beam_size=beams,
        length_penalty=alpha,
        max_extra_length=6,
        n_best=n_best,
    )
    lengths = set()
    weights = reference.weights_of(model)
    for row, hypotheses in zip(source, found, strict=True):
        expected = slow_search(weights, row, beams, alpha, 6, n_best)[:n_best]
        for (ids, score), (other, other_score) in zip(
            hypotheses, expected, strict=False
        ):
            assert ids == other
            assert score == pytest.approx(other_score, abs=1e-4)
            lengths.add(len(ids))
    # The model's sentences end early, late and at the limit: all ways are walked.
    assert len(lengths) > 2


def test_a_beam_of_one_is_greedy(model):
    weights = reference.weights_of(model)
    source = sources(seed=2, number=12)
    found = search(model, source, beam_size=1, max_extra_length=6)
    ended = 0
    for row, hypotheses in zip(source, found, strict=True):
        row = row[row > 0][None]
        tokens = [1]
        while tokens[-1] != 2 and len(tokens) <= row.shape[1] + 6:
            tokens.append(int(np.argmax(log_probabilities(weights, row, tokens))))
        ended += tokens[-1] == 2
        assert hypotheses[0][0] == [t for t in tokens[1:] if t != 2]
    assert ended > 3


def test_results_do_not_depend_on_the_rest_of_the_batch(model):
    source = sources(seed=9, number=8)
    together = search(model, source, beam_size=3, max_extra_length=6)
    for row, hypotheses in zip(source, together, strict=True):
        alone = search(model, row[row > 0][None], beam_size=3, max_extra_length=6)
        assert alone[0][0][0] == hypotheses[0][0]
        assert alone[0][0][1] == pytest.approx(hypotheses[0][1], abs=1e-4)
    reversed_rows = search(model, source[::-1], beam_size=3, max_extra_length=6)
    assert [h[0][0] for h in reversed_rows[::-1]] == [h[0][0] for h in together]


def test_scores_of_several_hypotheses_descend(model):
    for hypotheses in search(model, sources(seed=4), beam_size=4, n_best=4):
        scores = [score for _, score in hypotheses]
        assert scores == sorted(scores, reverse=True)
        found = [tuple(ids) for ids, score in hypotheses if score > -1e6]
        assert len(set(found)) == len(found)


def test_output_ends_at_the_limit(model):
    table = model.target_embedding.embeddings
    rows = table.numpy()
    endless = rows.copy()
    endless[2] = -20 * np.abs(rows).max()
    try:
        table.assign(endless)
        source = sources(seed=5)
        found = search(model, source, beam_size=2, max_extra_length=3)
    finally:
        table.assign(rows)
    for row, hypotheses in zip(source, found, strict=True):
        assert len(hypotheses[0][0]) <= (row > 0).sum() + 3


def test_length_penalty_is_equation_14_of_wu_et_al():
    np.testing.assert_allclose(
        length_penalty_of(tf.constant([1, 7]), 0.6), [1.0, 2**0.6], rtol=1e-6
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
