"""Untied output matrix and logits bias: in the layer, the model and the loss."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import OutputWeights, Transformer
from t2t_keras.layers.linear import frozen_weights
from t2t_keras.training.losses import token_losses

SIZES = {"num_layers": 1, "d_model": 8, "d_ff": 16, "num_heads": 2}
SOURCE = np.array([[5, 6, 7, 2], [8, 9, 2, 0]], np.int32)
TARGET = np.array([[1, 9, 8], [1, 5, 0]], np.int32)
FORMS = [
    {"tie_output": tied, "logits_bias": bias, "share_embeddings": shared}
    for tied in (True, False)
    for bias in (True, False)
    for shared in (True, False)
]


def model_of(form, **arguments):
    model = Transformer(source_vocab_size=12, **SIZES, **form, **arguments)
    if form.get("logits_bias"):
        bias = model.output_weights.bias
        assert not bias.numpy().any()
        bias.assign(np.random.default_rng(0).normal(size=12))
    return model


def paths(model):
    return {v.path for v in model.variables}


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_logits_are_states_times_matrix_plus_bias(form):
    model = model_of(form)
    inputs = {"source": SOURCE, "target": TARGET}
    matrix = model.target_embedding.embeddings
    if not form["tie_output"]:
        matrix = model.output_weights.kernel
    expected = model.target_states(inputs).numpy() @ matrix.numpy().T
    if form["logits_bias"]:
        expected += model.output_weights.bias.numpy()
    np.testing.assert_allclose(model(inputs), expected, atol=1e-5)


def test_variables_are_those_of_the_paper_unless_there_is_more():
    plain = model_of({})
    assert plain.output_weights is None
    own = {f"transformer/output_projection/{name}" for name in ("kernel", "bias")}
    both = model_of({"tie_output": False, "logits_bias": True})
    assert paths(both) == paths(plain) | own
    # Neither changes how the others are drawn.
    for variable in plain.variables:
        (same,) = (v for v in both.variables if v.path == variable.path)
        np.testing.assert_array_equal(variable, same)
    kernel = both.output_weights.kernel.numpy()
    assert not np.array_equal(kernel, both.target_embedding.embeddings)


@pytest.mark.parametrize("dtype", ["float64", "float32", "mixed_bfloat16"])
@pytest.mark.parametrize("form", FORMS[::2], ids=str)
def test_loss_of_the_projection_is_that_of_its_logits_in_value_and_gradient(
    form, dtype
):
    model = model_of(form, dtype=dtype, dropout=0.0)
    inputs = {"source": SOURCE, "target": TARGET}
    labels = tf.constant([9, 8, 2, 5, 2, 0])
    weights = tf.constant([1.0, 0.5, 2.0, 1.0, 1.5, 0.0], tf.float64)

    def plain():
        logits = tf.reshape(model(inputs), [-1, 12])
        return token_losses(labels, logits, 0.1)

    def fused():
        states = tf.reshape(model.target_states(inputs), [-1, 8])
        return model.output_projection().fused_token_losses(labels, states, 0.1)[:2]

    results = []
    for function in (plain, fused):
        with tf.GradientTape() as tape:
            smoothed, nll = (tf.cast(x, tf.float64) for x in function())
            total = tf.reduce_sum(smoothed * weights)
        gradients = tape.gradient(total, [v.value for v in model.trainable_variables])
        results.append([smoothed, nll, *map(tf.convert_to_tensor, gradients)])
    tolerance = {"float64": 1e-12, "float32": 1e-5, "mixed_bfloat16": 0.06}[dtype]
    for one, other in zip(*results, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, atol=tolerance)
    if form["logits_bias"]:
        (place,) = (
            i
            for i, v in enumerate(model.trainable_variables)
            if v is model.output_weights.bias
        )
        assert np.abs(results[1][2 + place]).max() > 0.1


def test_gradient_of_the_bias_does_not_overflow_in_float16():
    # A scaled loss, whose gradient at a frequent token is a sum over many positions.
    gradients = []
    for dtype in ("float32", "float16"):
        layer = OutputWeights(5, 4, dtype=dtype.replace("float16", "mixed_float16"))
        layer.build((None, None, 4))
        states = tf.cast(np.random.default_rng(0).normal(size=(9, 4)), dtype)
        with tf.GradientTape() as tape:
            projection, labels = layer.output_projection(), tf.constant([1] * 9)
            losses, _, _ = projection.fused_token_losses(labels, states, 0.1)
            total = tf.reduce_sum(losses) * 2.0**15
        gradients.append(tape.gradient(total, layer.bias.value))
    assert np.abs(gradients[0]).max() > 65504
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=0.01, atol=100)


@pytest.mark.parametrize(
    ("use_matrix", "tied"), [(True, tf.ones([5, 4])), (False, None)]
)
def test_a_projection_has_exactly_one_matrix(use_matrix, tied):
    layer = OutputWeights(5, 4, use_matrix=use_matrix)
    with pytest.raises(ValueError, match=f"Received: use_matrix={use_matrix}"):
        layer(tf.ones([1, 2, 4]), tied)


def test_a_bias_is_added_to_the_logits_of_a_tied_matrix():
    layer = OutputWeights(2, 3, use_matrix=False)
    layer.build((None, None, 3))
    layer.bias.assign([10.0, 20.0])
    matrix = tf.constant([[1.0, 0, 0], [0, 0, 2.0]])
    logits = layer(tf.constant([[[1.0, 2.0, 3.0]]]), tied_matrix=matrix)
    np.testing.assert_allclose(logits, [[[11.0, 26.0]]])
    assert [v.path for v in layer.variables] == [f"{layer.name}/bias"]


@pytest.mark.parametrize("frozen", [False, True])
def test_frozen_weights_fuse_the_bias_of_the_logits(frozen):
    with frozen_weights(frozen):
        layer = OutputWeights(5, 4)
    layer.build((None, None, 4))
    layer.bias.assign(np.arange(5))
    states = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    logits = tf.function(lambda x: layer.output_projection().logits(x))
    logits = logits.get_concrete_function(tf.TensorSpec([None, 3, 4]))
    expected = states @ layer.kernel.numpy().T + np.arange(5)
    np.testing.assert_allclose(logits(tf.constant(states)), expected, atol=1e-5)
    (added,) = (op for op in logits.graph.get_operations() if op.type == "BiasAdd")
    assert added.inputs[0].op.type == ("MatMul" if frozen else "Reshape")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
