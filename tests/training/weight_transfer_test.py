"""Tests of initializing a model with weights of another one."""

import sys

import numpy as np
import pytest

from t2t_keras import Transformer
from t2t_keras.training.weight_transfer import warm_start

SIZES = {"num_layers": 1, "d_model": 8, "d_ff": 8, "num_heads": 2}


def arrays_of(model):
    return {v.path: v.numpy() for v in model.trainable_variables}


def test_embedding_rows_match_by_token_and_other_weights_are_copied():
    other = arrays_of(Transformer(source_vocab_size=5, **SIZES, seed=1))
    model = Transformer(source_vocab_size=6, **SIZES)
    path = model.target_embedding.embeddings.path
    before = arrays_of(model)
    pieces = {path: (["p", "b", "x", "a", "y", "c"], ["p", "a", "b", "c", "d"])}
    assert warm_start(model.trainable_variables, other, pieces) == []
    after = arrays_of(model)
    rows = after.pop(path)
    for name, value in after.items():
        np.testing.assert_array_equal(value, other[name])
    np.testing.assert_array_equal(rows[[0, 1, 3, 5]], other[path][[0, 2, 1, 3]])
    np.testing.assert_array_equal(rows[[2, 4]], before[path][[2, 4]])


def test_output_matrix_and_bias_match_by_token():
    own = {"tie_output": False, "logits_bias": True}
    model, other = (
        Transformer(source_vocab_size=size, **SIZES, **own) for size in (4, 3)
    )
    other.output_weights.bias.assign([1.0, 2.0, 3.0])
    taken = {
        v.path: (list("pbxa"), list("pab")) for v in model.output_weights.variables
    }
    warm_start(model.trainable_variables, arrays_of(other), taken)
    np.testing.assert_array_equal(model.output_weights.bias, [1, 3, 0, 2])
    kernel = other.output_weights.kernel.numpy()
    np.testing.assert_array_equal(
        model.output_weights.kernel.numpy()[[0, 1, 3]], kernel[[0, 2, 1]]
    )


def test_unmatched_variables_are_listed_and_unchanged():
    other = arrays_of(Transformer(source_vocab_size=5, **SIZES, seed=1))
    model = Transformer(source_vocab_size=5, **{**SIZES, "num_layers": 2, "d_ff": 16})
    before = arrays_of(model)
    unmatched = warm_start(model.trainable_variables, other, {})
    assert any("feed_forward" in path for path in unmatched)
    after = arrays_of(model)
    for path in unmatched:
        np.testing.assert_array_equal(after[path], before[path])
    wider = Transformer(source_vocab_size=9, **{**SIZES, "d_model": 16})
    with pytest.raises(ValueError, match="values of d_model"):
        warm_start(wider.trainable_variables, other, {})


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
