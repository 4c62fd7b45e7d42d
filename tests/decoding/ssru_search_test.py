"""Search with SSRU decoders, whose states follow the beams."""

import sys

import numpy as np
import pytest
import reference
import tensorflow as tf

from t2t_keras import Transformer
from t2t_keras.decoding.beam_search import search as search_in_graph
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.forced_decoding import score_tokens
from t2t_keras.decoding.length_penalty import length_penalty_of
from t2t_keras.decoding.options import SearchOptions

VOCAB, EXTRA, SMALLEST = 14, 5, -1e6
SOURCE = np.array(
    [[5, 6, 7, 8, 9, 2], [8, 9, 2, 0, 0, 0], [4, 2, 0, 0, 0, 0], [11, 12, 13, 5, 2, 0]],
    np.int32,
)
PREFIX = np.array([[7, 8, 4], [0, 0, 0], [9, 0, 0], [0, 0, 0]], np.int32)


def random_model(seed=0, dtype="float32", **arguments):
    """Returns a model with large weights that ends its outputs at various lengths."""
    arguments = {"decoder_autoregression": "ssru", **arguments}
    model = Transformer(
        source_vocab_size=VOCAB,
        num_layers=2,
        d_model=16,
        d_ff=32,
        num_heads=4,
        dropout=0.0,
        pre_norm=True,
        logits_bias=True,
        seed=seed,
        dtype=dtype,
        **arguments,
    )
    for variable in model.trainable_variables:
        if variable.path.endswith("kernel"):
            variable.assign(2.5 * variable)
        if variable.path.endswith("embeddings"):
            variable.assign(0.7 * variable)
        if variable.shape == (VOCAB,):
            variable.assign(tf.one_hot(2, VOCAB, 1.0))
    return model


@pytest.fixture(scope="module")
def model():
    return random_model()


def search(models, prefix=PREFIX, source=SOURCE, **options):
    """Returns lists of (tokens with their end, score, token scores), one per row."""
    options = SearchOptions(max_extra_length=EXTRA, **options)
    found = tf.function(
        lambda: search_in_graph(
            Ensemble(models),
            tf.constant(source),
            options,
            tf.constant(prefix),
            with_token_scores=True,
        ),
        autograph=False,
    )()
    hypotheses = []
    for row in zip(*(x.numpy() for x in found), strict=True):
        hypotheses.append([])
        for ids, score, token_scores in zip(*row, strict=True):
            token_scores = token_scores[~np.isnan(token_scores)]
            ids = [int(i) for i in ids if i]
            tokens = [*ids, 2][: len(token_scores)]
            if score > SMALLEST:
                hypotheses[-1].append((tokens, float(score), token_scores))
    return hypotheses


def assert_scores_are_those_of_forced_decoding(models, found, alpha, atol=1e-4):
    lengths = set()
    for source, hypotheses in zip(SOURCE, found, strict=True):
        assert hypotheses
        for tokens, score, token_scores in hypotheses:
            row = tf.constant(source[source > 0][None])
            log_probs = score_tokens(Ensemble(models), row, tf.constant([tokens]))[0][0]
            np.testing.assert_allclose(token_scores, log_probs, atol=atol)
            expected = tf.reduce_sum(log_probs) / length_penalty_of(
                len(tokens), alpha, 5.0
            )
            assert score == pytest.approx(float(expected), abs=atol)
            lengths.add(len(tokens))
    assert len(lengths) > 1  # Rows leave the batch at various steps.


@pytest.mark.parametrize("beams", [1, 4])
def test_search_matches_reference_search_without_a_cache(model, beams):
    def log_probabilities(source, tokens):
        logits = model({"source": source, "target": np.array([tokens])})[0, -1].numpy()
        logits[:2] = -1e9  # Padding and start are no output.
        return logits - np.logaddexp.reduce(logits)

    options = {"beam_size": beams, "n_best": beams, "length_penalty": 0.6}
    found = search([model], np.zeros([4, 0], np.int32), **options)
    for source, hypotheses in zip(SOURCE, found, strict=True):
        expected = reference.search(
            log_probabilities, source, beams, 0.6, 5, EXTRA, beams
        )
        assert len(hypotheses) == len(expected)
        for (tokens, score, _), other in zip(hypotheses, expected, strict=True):
            assert [t for t in tokens if t != 2] == other[0]
            assert score == pytest.approx(other[1], abs=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 1},
        {"beam_size": 4, "n_best": 4},
        {"beam_size": 4, "n_best": 4, "min_length": 4, "no_repeat_ngram": 2},
        {"beam_size": 3, "n_best": 3, "sample": True},
    ],
)
def test_scores_match_forced_decoding(model, options):
    found = search([model], length_penalty=0.6, **options)
    for tokens, prefix in zip(
        (found[0][0][0], found[2][0][0]), PREFIX[[0, 2]], strict=True
    ):
        prefix = prefix[prefix > 0].tolist()
        assert tokens[: len(prefix)] == prefix
    assert_scores_are_those_of_forced_decoding([model], found, 0.6)


def test_ssru_and_self_attention_models_decode_as_an_ensemble(model):
    other = random_model(seed=1, decoder_autoregression="self_attention")
    found = search([model, other], beam_size=4, n_best=4, length_penalty=0.6)
    assert_scores_are_those_of_forced_decoding([model, other], found, 0.6)


@pytest.mark.parametrize("dtype", ["float64", "mixed_bfloat16"])
def test_search_in_other_dtypes_matches_forced_decoding(dtype):
    models = [random_model(dtype=dtype)]
    found = search(models, beam_size=4, n_best=4, length_penalty=0.6)
    # In bfloat16, the logits round differently when they are computed together.
    atol = 0.5 if dtype == "mixed_bfloat16" else 1e-4
    assert_scores_are_those_of_forced_decoding(models, found, 0.6, atol)


def test_results_do_not_depend_on_other_rows(model):
    together = search([model], beam_size=4)
    source = SOURCE[1:2, :3]
    alone = search([model], PREFIX[1:2], source, beam_size=4)[0]
    for one, other in zip(alone, together[1], strict=True):
        assert one[0] == other[0]
        assert one[1] == pytest.approx(other[1], abs=1e-4)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
