"""Models that compute NaN or infinity: every sentence still gets an answer."""

import contextlib
import sys

import exported
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import Transformer
from t2t_keras.decoding import top_k as top_k_module
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.translations import Translation
from t2t_keras.decoding.translator import Translator
from t2t_keras.export.servable import TranslationServable

LINES = ["the 7", "", "a dog 12", "no 3"]
LIMITS = {"max_extra_length": 3}
MODES = {
    "beam": SearchOptions(3, **LIMITS),
    "greedy": SearchOptions(1, **LIMITS),
    "n_best": SearchOptions(3, n_best=3, **LIMITS),
    "sampling": SearchOptions(2, sample=True, **LIMITS),
    "sampling, one beam": SearchOptions(1, sample=True, **LIMITS),
    "sampling, top_k and top_p": SearchOptions(
        2, sample=True, top_k=5, top_p=0.9, **LIMITS
    ),
    "constraints": SearchOptions(2, min_length=2, no_repeat_ngram=2, **LIMITS),
    # As many candidates as tokens.
    "wide beam": SearchOptions(24, **LIMITS),
}
FAULTS = {
    "one NaN": lambda weights: np.where(np.arange(weights.size) == 9, np.nan, 0),
    "all NaN": lambda weights: np.nan,
    "an infinity": lambda weights: np.where(np.arange(weights.size) == 9, np.inf, 0),
    "overflow": lambda weights: 3e38,
}


@contextlib.contextmanager
def broken(model, fault):
    """Adds a fault to a model's embeddings."""
    variable = model.target_embedding.embeddings
    weights = variable.numpy()
    change = np.broadcast_to(FAULTS[fault](weights), [weights.size])
    variable.assign(weights + change.reshape(weights.shape).astype(np.float32))
    try:
        yield
    finally:
        variable.assign(weights)


@pytest.fixture(scope="module")
def toy():
    return exported.toy()


def failed(status):
    return [Translation("", None, status)]


@pytest.mark.parametrize("mode", MODES)
def test_each_sentence_has_one_result_with_status_model_error(toy, mode):
    model, tokenizers = toy
    translator = Translator(model, tokenizers, MODES[mode])
    for fault in FAULTS:
        with broken(model, fault):
            found = translator.translate(LINES)
            assert found == [
                failed("empty" if not line else "model_error") for line in LINES
            ], fault
    # The same graph with intact weights.
    found = translator.translate(LINES)
    assert [row[0].status for row in found] == ["ok", "empty", "ok", "ok"]
    assert [row[0].score is None for row in found] == [False, True, False, False]
    assert all(np.isfinite(row[0].score) for row in found if row[0].text)


def test_prefixes_details_and_scores_have_status_model_error(toy):
    model, tokenizers = toy
    translator = Translator(model, tokenizers, MODES["n_best"])
    with broken(model, "one NaN"):
        in_detail = translator.translate_in_detail(LINES, ["the", "", "", "a"])
        scored = translator.score(LINES, ["the", "", "", ""])
    nothing = ([], [], [])
    assert [row[0][0].status for row in in_detail] == [
        "model_error",
        "empty",
        "model_error",
        "model_error",
    ]
    assert all(row[0][1] == nothing for row in in_detail)
    assert [one.status for one in scored] == [row[0][0].status for row in in_detail]
    assert all(one.details == nothing for one in scored)


def test_one_broken_model_breaks_an_ensemble(toy):
    other, tokenizers = exported.toy(seed=3)
    translator = Translator([toy[0], other], tokenizers, MODES["beam"])
    with broken(other, "an infinity"):
        assert translator.translate(LINES)[0] == failed("model_error")
    assert translator.translate(LINES)[0][0].status == "ok"


@pytest.mark.parametrize("mode", ["beam", "greedy", "sampling"])
def test_only_sentences_with_the_broken_token_fail(toy, mode):
    """For example, float16 overflows for some sentences only."""
    _, tokenizers = toy
    size = tokenizers.source.vocab_size
    model = Transformer(
        source_vocab_size=size,
        num_layers=1,
        d_model=16,
        d_ff=16,
        num_heads=2,
        share_embeddings=False,
    )
    translator = Translator(model, tokenizers, MODES[mode])
    lines = ["the 7", "a dog 12", "no 3", "the 12"]
    whole = translator.translate(lines)
    tokens = [set(ids) for ids in tokenizers.source.tokenize(lines).to_list()]
    (token, *_) = tokens[1].difference(tokens[0], tokens[2], tokens[3])
    rows = model.source_embedding.embeddings.numpy()
    rows[token] = np.inf
    model.source_embedding.embeddings.assign(rows)
    translator = Translator(model, tokenizers, MODES[mode])
    found = translator.translate(lines)
    assert found[1] == failed("model_error")
    for number in (0, 2, 3):
        texts, scores, _ = zip(*found[number], strict=True)
        expected_texts, expected_scores, _ = zip(*whole[number], strict=True)
        assert texts == expected_texts
        assert scores == pytest.approx(expected_scores, rel=1e-5)


def test_exported_signatures_return_finite_numbers(toy):
    model, tokenizers = toy
    servable = TranslationServable([model], tokenizers, MODES["n_best"])
    signatures = servable.signatures()
    text = tf.constant([*LINES, b"\xff"])
    ids = tf.constant([[5, 6], [0, 0], [7, 8]])
    states = [b"model_error", b"empty", b"model_error", b"model_error", b"invalid_utf8"]
    # The servable has its own weights.
    for variable in servable._module.weights:
        if variable.dtype == tf.float32:
            variable.assign(tf.fill(variable.shape, np.nan))
    answers = [
        signatures["serving_default"](text),
        signatures["n_best"](text),
        signatures["ids"](ids),
        signatures["align"](text, tf.constant(["the", "", "a", "no", "a"])),
    ]
    for answer in answers:
        assert answer["status"].numpy().tolist() in (states, states[:3])
        for name, values in answer.items():
            if values.dtype == tf.float32:
                assert np.isfinite(values).all(), name
                assert not np.any(values), name
    assert not any(answers[0]["translation"].numpy().tolist())
    assert not answers[2]["target_ids"].numpy().any()


@pytest.mark.parametrize("size", [9, 700, 1024, 8001])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_log_sum_reveals_non_finite_logits_and_top_k_indices_are_valid(size, value):
    x = np.random.default_rng(0).normal(size=[3, 2, size]).astype(np.float32)
    x[0, 0, size // 2] = value
    x[1, 1] = value
    sums = tf.reduce_logsumexp(tf.constant(x), axis=-1).numpy()
    assert np.isfinite(sums).tolist() == [[False, True], [True, False], [True, True]]
    _, indices = top_k_module.top_k(tf.constant(x), min(size, 9))
    assert indices.numpy().min() >= 0
    assert indices.numpy().max() < size


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
