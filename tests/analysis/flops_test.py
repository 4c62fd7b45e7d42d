"""Tests of counted parameters and operations against real models and graphs."""

import math
import sys

import pytest
import tensorflow as tf
from tensorflow.python.profiler import model_analyzer, option_builder

from t2t_keras import Transformer
from t2t_keras.analysis.flops import (
    PAPER_COSTS,
    count_parameters,
    forward_flops,
    paper_flops,
    training_flops,
)
from t2t_keras.config import TransformerConfig
from t2t_keras.config.paper_variations import VARIATIONS
from t2t_keras.config.presets import BASE, vary

SIZES = {
    "source_vocab_size": 50,
    "num_layers": 2,
    "d_model": 32,
    "d_ff": 64,
    "num_heads": 4,
}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"num_decoder_layers": 3},
        {"num_decoder_layers": 1, "attention_bias": True},
        {"d_k": 6, "d_v": 10},
        {"d_k": 6, "d_v": 10, "attention_bias": True},
        # If d_k is set, num_heads need not divide d_model.
        {"num_heads": 5, "d_k": 3},
        {"d_v": 5},
        {"decoder_autoregression": "ssru", "attention_bias": True},
        {"pre_norm": True},
        {"position": "learned", "max_length": 40},
        {"position": "learned"},
        {"share_embeddings": False},
        {"tie_output": False},
        {"logits_bias": True},
        {"tie_output": False, "logits_bias": True, "share_embeddings": False},
        {"share_embeddings": False, "target_vocab_size": 70, "pre_norm": True},
    ],
    ids=str,
)
def test_count_parameters_matches_the_model(more):
    config = TransformerConfig(**{**SIZES, **more})
    built = Transformer(config).trainable_variables
    assert count_parameters(config) == sum(math.prod(v.shape) for v in built)


@pytest.mark.parametrize("row", VARIATIONS)
def test_parameters_of_table_3_match_the_paper(row):
    found, base = (
        count_parameters(preset.transformer.replace(source_vocab_size=37_000)) / 1e6
        for preset in (vary(BASE, row), BASE)
    )
    paper = VARIATIONS[row].parameters
    assert found == pytest.approx(paper, rel=0.07)
    # The paper states 65 million for base, 2 more, for a vocabulary of "about" 37,000.
    assert found - base == pytest.approx(paper - 65, rel=0.03, abs=1.1)


@pytest.mark.parametrize("autoregression", ["self_attention", "ssru"])
def test_forward_flops_match_the_graph(autoregression):
    config = TransformerConfig(
        **SIZES,
        num_decoder_layers=3,
        d_k=6,
        d_v=10,
        decoder_autoregression=autoregression,
    )
    model = Transformer(config)
    inputs = {
        "source": tf.TensorSpec([1, 11], tf.int32),
        "target": tf.TensorSpec([1, 7], tf.int32),
    }
    graph = tf.function(lambda x: model(x)).get_concrete_function(inputs).graph
    options = option_builder.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    counted = model_analyzer.profile(graph, options=options).total_float_ops
    # The count of the graph includes softmax, normalization and other operations.
    assert forward_flops(config, 11, 7) == pytest.approx(counted, rel=0.1)
    assert training_flops(config, 11, 7, 4) == 12 * forward_flops(config, 11, 7)


def test_flops_of_a_window_count_the_keys_in_it():
    sizes = {**SIZES, "num_decoder_layers": 3}
    whole, windowed = (
        forward_flops(TransformerConfig(**sizes, attention_window=window), 11, 7)
        for window in (None, 4)
    )
    # Two products of d_model for each of a query's keys: 5 of 11, and 5 of 7.
    saved = 2 * 11 * (11 - 5) + 3 * 7 * (7 - 5)
    assert whole - windowed == 2 * 2 * 32 * saved
    wide = TransformerConfig(**sizes, attention_window=40)
    assert forward_flops(wide, 11, 7) == whole


def test_paper_flops_match_table_2():
    costs = {model: f"{paper_flops(**cost):.1e}" for model, cost in PAPER_COSTS.items()}
    assert costs == {"base": "3.3e+18", "big": "2.3e+19"}


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
