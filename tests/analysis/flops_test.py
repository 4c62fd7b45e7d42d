"""Operations are those that TensorFlow counts in the graph."""

import sys

import pytest
import tensorflow as tf
from tensorflow.python.profiler import model_analyzer, option_builder

from t2t_keras import Transformer
from t2t_keras.analysis.flops import forward_flops, training_flops

ARGUMENTS = {
    "source_vocab_size": 50,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "d_model": 32,
    "d_ff": 64,
    "num_heads": 4,
    "d_k": 6,
    "d_v": 10,
}


def test_the_count_is_that_of_the_graph():
    model = Transformer(**ARGUMENTS)
    inputs = {
        "source": tf.TensorSpec([1, 11], tf.int32),
        "target": tf.TensorSpec([1, 7], tf.int32),
    }
    graph = tf.function(lambda x: model(x)).get_concrete_function(inputs).graph
    options = option_builder.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    counted = model_analyzer.profile(graph, options=options).total_float_ops
    # The graph's count has softmax, normalization and the like too.
    assert forward_flops(ARGUMENTS, 11, 7) == pytest.approx(counted, rel=0.1)
    assert training_flops(ARGUMENTS, 11, 7, 4) == 12 * forward_flops(ARGUMENTS, 11, 7)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
