"""Search with restricted self-attention against the full forward pass."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import Transformer
from t2t_keras.decoding.beam_search import search
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.options import SearchOptions

SIZES = {"num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 4, "dropout": 0.0}
VOCAB, WINDOW, SMALLEST = 20, 4, -1e6
SOURCE = np.array([[5, 6, 7, 8, 9, 5, 2, 0], [8, 9, 4, 5, 6, 11, 12, 2]], np.int32)


@pytest.fixture(scope="module")
def models():
    """A model with an attention window, and one without it with the same weights."""
    windowed, plain = (
        Transformer(source_vocab_size=VOCAB, attention_window=window, **SIZES)
        for window in (WINDOW, None)
    )
    weights = [2 * weight for weight in windowed.get_weights()]
    for model in (windowed, plain):
        model.set_weights(weights)
    return windowed, plain


def window_of(length):
    """Returns a mask of positions within the window, `[1, 1, length, length]`."""
    mask = [[abs(i - j) <= WINDOW // 2 for j in range(length)] for i in range(length)]
    return np.array(mask)[np.newaxis, np.newaxis]


def logits_under_masks(plain, source, target):
    """Returns logits of the model without a window, with explicit masks."""
    padding = (source > 0)[:, np.newaxis, np.newaxis]
    x = plain.source_position(plain.source_embedding(source))
    memory = plain.encoder(x, attention_mask=padding & window_of(source.shape[1]))
    length = target.shape[1]
    causal = np.tril(np.ones((length, length), bool))
    return plain.decode(
        target, memory, padding, self_attention_mask=causal & window_of(length)
    )


def test_forward_pass_equals_attention_with_explicit_masks(models):
    windowed, plain = models
    target = np.array([[1, 9, 8, 4, 5, 6, 7, 10]] * 2, np.int32)
    inputs = {"source": SOURCE, "target": target}
    expected = logits_under_masks(plain, SOURCE, target)
    np.testing.assert_allclose(windowed(inputs), expected, atol=1e-4)
    full = windowed(inputs, return_attention_scores=True)
    np.testing.assert_allclose(full.logits, expected, atol=1e-4)
    assert np.abs(plain(inputs) - expected).max() > 0.1


@pytest.mark.parametrize("beam_size", [1, 4])
def test_scores_of_cached_search_equal_teacher_forcing(models, beam_size):
    windowed, plain = models
    options = SearchOptions(
        beam_size, n_best=beam_size, min_length=9, max_extra_length=6
    )
    found = tf.function(
        lambda: search(
            Ensemble([windowed]), tf.constant(SOURCE), options, with_token_scores=True
        ),
        autograph=False,
    )()
    compared = 0
    for source, *hypotheses in zip(SOURCE, *(x.numpy() for x in found), strict=True):
        for ids, score, scores in zip(*hypotheses, strict=True):
            if score < SMALLEST:
                continue
            scores = scores[~np.isnan(scores)]
            tokens = np.array([*ids[ids > 0], 2][: len(scores)], np.int32)
            target = np.array([[1, *tokens[:-1]]], np.int32)
            logits = logits_under_masks(plain, source[np.newaxis], target).numpy()[0]
            logits[:, :2] = -1e9  # Padding and start tokens are blocked.
            log_probs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
            expected = log_probs[np.arange(len(tokens)), tokens]
            np.testing.assert_allclose(scores, expected, atol=1e-3)
            assert len(tokens) > 2 * WINDOW
            compared += 1
    assert compared >= 2 * min(beam_size, 3)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
