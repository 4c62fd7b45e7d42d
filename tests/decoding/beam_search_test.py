"""Beam search against a NumPy implementation without a cache."""

import functools
import gc
import itertools
import sys

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

from t2t_keras import Transformer
from t2t_keras.decoding import beam_search_steps
from t2t_keras.decoding import top_k as top_k_module
from t2t_keras.decoding.beam_search import search as search_in_graph
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.forced_decoding import align_words, score_tokens
from t2t_keras.decoding.length_penalty import length_penalty_of
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.sampling import gumbel, sample
from t2t_keras.training.losses import LabelSmoothedCrossEntropy

VOCAB = 20


@pytest.fixture(scope="module")
def model():
    """A half-trained model: uncertain, with outputs of various lengths."""
    keras.utils.set_random_seed(0)  # Determines the order of examples in `fit`.
    model = Transformer(
        source_vocab_size=VOCAB,
        num_layers=2,
        d_model=16,
        d_ff=32,
        num_heads=4,
        pre_norm=True,
        dropout=0,
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


def search(models, source, prefix=None, row_seeds=None, **options):
    ensemble = Ensemble(models if isinstance(models, list) else [models])
    function = tf.function(
        lambda source: search_in_graph(
            ensemble, source, SearchOptions(**options), prefix, row_seeds
        ),
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
@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 5.0), (0.6, 5.0), (1.0, 0.0)])
def test_search_equals_reference_search(model, beams, n_best, alpha, beta):
    source = sources(seed=beams, number=10)
    found = search(
        model,
        source,
        beam_size=beams,
        length_penalty=alpha,
        length_penalty_beta=beta,
        max_extra_length=6,
        n_best=n_best,
    )
    lengths = set()
    weights = reference.weights_of(model)
    scorer = functools.partial(log_probabilities, weights)
    for row, hypotheses in zip(source, found, strict=True):
        expected = reference.search(scorer, row, beams, alpha, beta, 6, n_best)[:n_best]
        for (ids, score), (other, other_score) in zip(
            hypotheses, expected, strict=False
        ):
            assert ids == other
            assert score == pytest.approx(other_score, abs=1e-4)
            lengths.add(len(ids))
    # Outputs end early, late and at the maximum length, which covers all branches.
    assert len(lengths) > 2


def test_beam_size_1_is_greedy_search(model):
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


def test_results_do_not_depend_on_other_rows(model):
    source = sources(seed=9, number=8)
    together = search(model, source, beam_size=3, max_extra_length=6)
    for row, hypotheses in zip(source, together, strict=True):
        alone = search(model, row[row > 0][None], beam_size=3, max_extra_length=6)
        assert alone[0][0][0] == hypotheses[0][0]
        assert alone[0][0][1] == pytest.approx(hypotheses[0][1], abs=1e-4)
    reversed_rows = search(model, source[::-1], beam_size=3, max_extra_length=6)
    assert [h[0][0] for h in reversed_rows[::-1]] == [h[0][0] for h in together]


def test_hypotheses_are_distinct_and_sorted_by_score(model):
    for hypotheses in search(model, sources(seed=4), beam_size=4, n_best=4):
        scores = [score for _, score in hypotheses]
        assert scores == sorted(scores, reverse=True)
        found = [tuple(ids) for ids, score in hypotheses if score > -1e6]
        assert len(set(found)) == len(found)


def test_output_is_truncated_at_the_maximum_length(model):
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


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_beam_search_scores_higher_than_greedy_search(model, alpha):
    source = sources(seed=7, number=24)
    arguments = {"length_penalty": alpha, "max_extra_length": 6}
    greedy = search(model, source, beam_size=1, **arguments)
    for beams in (2, 5):
        wide = search(model, source, beam_size=beams, **arguments)
        gains = [
            other[0][1] - one[0][1] for one, other in zip(greedy, wide, strict=True)
        ]
        # Beam search may prune the greedy path of a sentence or two, depending on
        # rounding in training.
        assert sum(gain < -1e-4 for gain in gains) <= 2
        assert sum(gains) > 0


def test_ensemble_averages_probabilities(model):
    other = Transformer(
        source_vocab_size=VOCAB,
        num_layers=1,
        d_model=8,
        d_ff=16,
        num_heads=2,
        dropout=0,
        seed=3,
    )
    source = sources(seed=11)
    ensemble, ids = Ensemble([model, other]), tf.constant([[5, 6, 2]])
    target = tf.constant([[5, 7, 2]])
    scores = score_tokens(ensemble, ids, target).log_probs
    shifted = tf.constant([[1, 5, 7]])
    each = []
    for one in (model, other):
        probs = tf.nn.softmax(one({"source": ids, "target": shifted}))[..., 2:]
        # The padding and start tokens, the first two, are blocked.
        probs /= tf.reduce_sum(probs, axis=-1, keepdims=True)
        each.append(tf.pad(probs, [[0, 0], [0, 0], [2, 0]]))
    expected = tf.gather(tf.math.log((each[0] + each[1]) / 2), target, batch_dims=2)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    # An ensemble of a model with itself equals the model.
    assert search([model, model], source)[0][0][0] == search(model, source)[0][0][0]
    # Scores of the search equal scores by teacher forcing.
    found = search([model, other], source, length_penalty=0.0, max_extra_length=20)
    for row, hypotheses in zip(source, found, strict=True):
        tokens, score = hypotheses[0]
        row = tf.constant(row[row > 0][None])
        again = score_tokens(ensemble, row, tf.constant([[*tokens, 2]])).log_probs
        if len(tokens) < row.shape[1] + 20:
            assert score == pytest.approx(float(tf.reduce_sum(again)), abs=1e-4)
    with pytest.raises(ValueError, match="must have the same vocabulary"):
        Ensemble(
            [
                model,
                Transformer(source_vocab_size=9, num_layers=1, d_model=8, num_heads=2),
            ]
        )
    with pytest.raises(ValueError, match="must contain at least one model"):
        Ensemble([])


def test_outputs_satisfy_all_constraints(model):
    source = sources(seed=13, number=12)
    for hypotheses in search(model, source, min_length=9):
        assert len(hypotheses[0][0]) >= 9
    for beam_size in (1, 4):
        limits = {"beam_size": beam_size, "min_length": 4, "max_output_tokens": 5}
        for hypotheses in search(model, source, **limits):
            # Unused entries of the beam have impossible scores.
            found = [tokens for tokens, score in hypotheses if score > -1e6]
            assert {len(tokens) for tokens in found} <= {4, 5}
            assert found
    free = search(model, source, max_extra_length=12, min_length=12)
    blocked = search(
        model, source, max_extra_length=12, min_length=12, no_repeat_ngram=2
    )

    def repeats(tokens):
        pairs = list(itertools.pairwise(tokens))
        return len(pairs) - len(set(pairs))

    assert sum(repeats(best[0][0]) for best in free) > 0
    assert sum(repeats(best[0][0]) for best in blocked) == 0


@pytest.mark.parametrize("form", [{"beam_size": 1}, {"beam_size": 4}, {"sample": True}])
def test_disabled_unknown_token_is_never_produced(form):
    model = Transformer(
        source_vocab_size=VOCAB,
        num_layers=1,
        d_model=8,
        num_heads=2,
        logits_bias=True,
        tie_output=False,
    )
    bias = np.zeros(VOCAB, np.float32)
    bias[3] = 5
    model.output_weights.bias.assign(bias)

    def counts(**options):
        found = search(model, sources(seed=5), max_extra_length=6, **form, **options)
        return sum(best[0][0].count(3) for best in found)

    assert counts() > 10
    assert counts(disable_unk=True) == 0


def test_min_length_takes_precedence_over_max_extra_length(model):
    source = sources(seed=13, number=6)
    options = {"min_length": 30, "max_extra_length": 3, "beam_size": 2}
    for hypotheses in search(model, source, **options):
        assert 30 <= len(hypotheses[0][0]) <= 31
    for hypotheses in search(model, source, **options, max_output_tokens=30):
        assert len(hypotheses[0][0]) == 30


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 4, "n_best": 4},
        {"beam_size": 1, "length_penalty": 0.0},
        {"beam_size": 3, "sample": True, "max_output_tokens": 5},  # Some are truncated.
        {"beam_size": 3, "no_repeat_ngram": 2, "min_length": 5},
    ],
)
def test_token_scores_equal_teacher_forcing_and_add_up_to_score(model, options):
    options = {"max_extra_length": 8, "length_penalty": 0.6, **options}
    source = sources(seed=23, number=10)
    prefix = np.zeros([10, 2], np.int32)
    prefix[3] = 7, 8
    chosen = SearchOptions(**options)
    found = tf.function(
        lambda: search_in_graph(
            Ensemble([model]),
            tf.constant(source),
            chosen,
            tf.constant(prefix),
            with_token_scores=True,
        ),
        autograph=False,
    )()
    ends = set()
    for row, *hypotheses in zip(source, *(x.numpy() for x in found), strict=True):
        for ids, score, token_scores in zip(*hypotheses, strict=True):
            if score < -1e6:
                continue
            ids, token_scores = ids[ids > 0], token_scores[~np.isnan(token_scores)]
            penalty = float(length_penalty_of(len(token_scores), chosen.length_penalty))
            assert token_scores.sum() / penalty == pytest.approx(score, abs=1e-4)
            has_end = len(token_scores) - len(ids)
            tokens = [*ids, 2][: len(token_scores)]
            again = score_tokens(
                Ensemble([model]),
                tf.constant(row[row > 0][None]),
                tf.constant([tokens]),
            ).log_probs
            np.testing.assert_allclose(token_scores, again[0], atol=1e-4)
            ends.add(has_end)
    assert ends == ({0, 1} if chosen.max_output_tokens else {1})


def test_forced_prefix_is_kept_and_scored(model):
    source = sources(seed=17, number=5)
    prefix = np.zeros([5, 3], np.int32)
    prefix[0] = 7, 8, 9
    prefix[1, 0] = 11
    arguments = {"max_extra_length": 20, "length_penalty": 0.0}
    found = search(model, source, prefix=tf.constant(prefix), **arguments)
    free = search(model, source, **arguments)
    assert found[0][0][0][:3] == [7, 8, 9]
    assert found[1][0][0][0] == 11
    assert [h[0][0] for h in found[2:]] == [h[0][0] for h in free[2:]]
    tokens, score = found[0][0]
    row = tf.constant(source[0][source[0] > 0][None])
    again = score_tokens(Ensemble([model]), row, tf.constant([[*tokens, 2]])).log_probs
    assert score == pytest.approx(float(tf.reduce_sum(again)), abs=1e-4)


def test_forced_prefix_takes_precedence_over_constraints(model):
    source = sources(seed=17, number=2)
    prefix = tf.constant([[7, 8, 7, 8, 7, 8], [0] * 6])
    found = search(model, source, prefix=prefix, no_repeat_ngram=2, max_extra_length=9)
    for tokens, score in found[0]:
        assert tokens[:6] == [7, 8, 7, 8, 7, 8]
        assert score > -1e6


def test_gumbel_noise_is_finite_at_both_ends():
    noise = gumbel(tf.constant([0, 1, 2**31, 2**32 - 2, 2**32 - 1], tf.uint32))
    assert np.isfinite(noise.numpy()).all()
    assert (np.diff(noise.numpy()) >= 0).all()


def test_samples_follow_the_models_distribution(model):
    row = sources(seed=19, number=1)
    logits = model({"source": tf.constant(row), "target": tf.constant([[1]])})[0, 0]
    logits = logits.numpy()
    logits[:2] = -np.inf
    expected = np.exp(logits - np.logaddexp.reduce(logits))
    # Many outputs of one token, each with its own seed.
    number = 3000
    found = search(
        model,
        np.repeat(row, number, axis=0),
        beam_size=2,
        sample=True,
        max_extra_length=1,
        prefix=tf.zeros([number, 0], tf.int32),
    )
    firsts = [tokens[0] if tokens else 2 for best in found for tokens, _ in best]
    share = np.bincount(firsts, minlength=VOCAB) / len(firsts)
    np.testing.assert_allclose(share, expected, atol=0.04)


@pytest.mark.parametrize(
    ("options", "allowed"),
    [({"top_k": 2}, 2), ({"top_p": 0.5}, None), ({"temperature": 1e-4}, 1)],
)
def test_sampling_options_restrict_tokens(options, allowed):
    logits = tf.math.log([[[0.1, 0.3, 0.25, 0.35]]])
    chosen = SearchOptions(1, sample=True, **options)
    sampled = {
        int(sample(logits, tf.constant(0), tf.constant([row]), chosen)[0, 0])
        for row in range(200)
    }
    ranked = [3, 1, 2, 0]
    # 0.35 + 0.3 reaches top_p = 0.5.
    assert sampled == set(ranked[: allowed or 2])


@pytest.mark.parametrize("options", [{"beam_size": 4}, {"sample": True, "top_k": 5}])
def test_search_with_own_top_k_equals_tensorflows(options, monkeypatch):
    large = Transformer(
        source_vocab_size=1000,
        num_layers=1,
        d_model=16,
        d_ff=32,
        num_heads=4,
        pre_norm=True,
    )
    options |= {"min_length": 6, "max_output_tokens": 8}
    found = search(large, sources(seed=17), **options)
    for module in (beam_search_steps, top_k_module):
        monkeypatch.setattr(module, "top_k", tf.math.top_k)
    assert found == search(large, sources(seed=17), **options)


def test_length_penalty_is_equation_14_of_wu_et_al():
    np.testing.assert_allclose(
        length_penalty_of(tf.constant([1, 7]), 0.6), [1.0, 2**0.6], rtol=1e-6
    )


def test_length_penalty_with_beta_0_is_a_power_of_the_length():
    penalty = length_penalty_of(tf.constant([1, 7]), 0.6, beta=0)
    np.testing.assert_allclose(penalty, [1.0, 7**0.6], rtol=1e-6)


def test_words_are_aligned_by_summed_attention_of_their_tokens():
    attention = np.array([[0.4, 0.3, 0.3], [0.5, 0.2, 0.3], [0.1, 0.1, 0.8]])
    # Source words: token 0, tokens 1-2. Target words: tokens 0-1, token 2.
    assert align_words(attention, [0, 1, 1], [0, 0, 1]) == [(1, 0), (1, 1)]
    assert align_words(np.zeros([0, 0]), [], []) == []


def test_graphs_of_a_search_are_garbage_collected(model):
    def alive():
        gc.collect()
        return sum(isinstance(each, FuncGraph) for each in gc.get_objects())

    search(model, sources(seed=1), beam_size=2)
    before = alive()
    search(model, sources(seed=1), beam_size=2)
    assert alive() <= before


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
