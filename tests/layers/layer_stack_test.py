"""Encoder and decoder layers match the paper's equations; all layers can be saved."""

import sys

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf

from t2t_keras import (
    SSRU,
    ConcatenatedSinusoidalPosition,
    CrossAttention,
    Decoder,
    DecoderLayer,
    Dropout,
    Encoder,
    EncoderLayer,
    FeedForward,
    LayerNorm,
    LearnedPosition,
    Linear,
    MarianSinusoidalPosition,
    MultiHeadAttention,
    OutputWeights,
    Residual,
    SelfAttention,
    SharedEmbedding,
    SinusoidalPosition,
)
from t2t_keras.layers.linear import frozen_weights


def random(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def add_noise(layer):
    """Adds noise to gains and biases, so that a test notices if they are not used."""
    rng = np.random.default_rng(7)
    for variable in layer.trainable_weights:
        if len(variable.shape) == 1:
            variable.assign(variable.numpy() + 0.1 * rng.normal(size=variable.shape))


@pytest.mark.parametrize("pre_norm", [False, True])
def test_encoder_layer_matches_the_equations(pre_norm):
    layer = EncoderLayer(d_model=16, d_ff=32, num_heads=4, pre_norm=pre_norm)
    x = random((2, 5, 16))
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)[:, None, None, :]
    layer(x)
    add_noise(layer)
    expected = reference.encoder_layer(
        reference.weights_of(layer), x, mask[:, 0], 4, 4, 4, pre_norm
    )
    np.testing.assert_allclose(layer(x, attention_mask=mask), expected, atol=1e-5)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_decoder_layer_matches_the_equations(pre_norm):
    layer = DecoderLayer(
        d_model=16, d_ff=32, num_heads=4, d_k=3, d_v=5, pre_norm=pre_norm
    )
    x, memory = random((2, 4, 16)), random((2, 5, 16), 1)
    causal = np.tril(np.ones((4, 4), bool))[None, None]
    cross = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)[:, None, None, :]
    layer(x, memory)
    add_noise(layer)
    expected = reference.decoder_layer(
        reference.weights_of(layer),
        x,
        memory,
        causal[:, 0],
        cross[:, 0],
        4,
        3,
        5,
        pre_norm,
    )
    output = layer(x, memory, self_attention_mask=causal, cross_attention_mask=cross)
    np.testing.assert_allclose(output, expected, atol=1e-5)


@pytest.mark.parametrize("activation", reference.ACTIVATIONS)
def test_feed_forward_matches_the_equation(activation):
    layer = FeedForward(8, 16, activation=activation)
    x = random((2, 3, 8))
    layer(x)
    add_noise(layer)
    expected = reference.feed_forward(reference.weights_of(layer), x, activation)
    np.testing.assert_allclose(layer(x), expected, atol=1e-5)


def test_linear_has_a_row_per_output_and_glorot_uniform_initialization():
    layer = Linear(300, seed=1)
    x = random((2, 3, 500))
    layer(x)
    add_noise(layer)
    kernel, bias = (v.numpy() for v in layer.weights)
    np.testing.assert_allclose(layer(x), x @ kernel.T + bias, atol=1e-4)
    assert np.abs(kernel).max() == pytest.approx((6 / 800) ** 0.5, rel=1e-3)
    assert kernel.std() == pytest.approx((2 / 800) ** 0.5, rel=0.01)


@pytest.mark.parametrize("frozen", [False, True])
def test_frozen_weights_fuse_product_and_bias(frozen):
    with frozen_weights(frozen):
        layer = Linear(3)
    x = random((2, 4, 5))
    layer(x)
    add_noise(layer)
    kernel, bias = (v.numpy() for v in layer.weights)
    projected = tf.function(layer).get_concrete_function(tf.TensorSpec([None, 4, 5]))
    np.testing.assert_allclose(
        projected(tf.constant(x)), x @ kernel.T + bias, atol=1e-5
    )
    (added,) = (op for op in projected.graph.get_operations() if op.type == "BiasAdd")
    assert added.inputs[0].op.type == ("MatMul" if frozen else "Reshape")


LAYERS = {
    "dropout": (Dropout(0.2), 1),
    "residual": (Residual(8, 0.1, pre_norm=True), 2),
    "linear": (Linear(3), 1),
    "linear_without_bias": (Linear(3, use_bias=False), 1),
    "layer_norm": (LayerNorm(epsilon=1e-6), 1),
    "feed_forward": (FeedForward(8, 16, relu_dropout=0.1, activation="gelu"), 1),
    "self_attention": (SelfAttention(2, 8, d_k=3, attention_dropout=0.1), 1),
    "windowed_attention": (MultiHeadAttention(2, 8, attention_window=2), 1),
    "cross_attention": (CrossAttention(2, 8), 2),
    "sinusoidal": (SinusoidalPosition(8), 1),
    "sinusoidal_concat": (ConcatenatedSinusoidalPosition(8), 1),
    "sinusoidal_marian": (MarianSinusoidalPosition(8), 1),
    "output_weights": (OutputWeights(5, 8), 1),
    "learned": (LearnedPosition(8, max_length=4), 1),
    "encoder_layer": (EncoderLayer(d_model=8, d_ff=16, num_heads=2), 1),
    "decoder_layer": (DecoderLayer(d_model=8, d_ff=16, num_heads=2), 2),
    "encoder": (
        Encoder(num_layers=2, d_model=8, d_ff=16, num_heads=2, pre_norm=True),
        1,
    ),
    "ssru": (SSRU(8), 1),
    "ssru_decoder": (
        Decoder(
            num_layers=2,
            d_model=8,
            d_ff=16,
            num_heads=2,
            decoder_autoregression="ssru",
        ),
        2,
    ),
    "decoder": (Decoder(num_layers=2, d_model=8, d_ff=16, num_heads=2), 2),
}


@pytest.mark.parametrize("name", LAYERS)
def test_save_and_load_keep_the_outputs_of_each_layer(name, tmp_path):
    layer, inputs = LAYERS[name]
    layer = type(layer).from_config(layer.get_config())
    symbolic = [keras.Input((None, 8)) for _ in range(inputs)]
    model = keras.Model(symbolic, layer(*symbolic))
    values = [random((2, 5, 8), seed) for seed in range(inputs)]
    expected = model(values)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(values), expected)


@pytest.mark.parametrize("name", LAYERS)
def test_compute_output_shape_matches_the_output(name):
    layer, inputs = LAYERS[name]
    layer = type(layer).from_config(layer.get_config())
    values = [random((2, 5, 8), seed) for seed in range(inputs)]
    expected = layer(*values).shape
    assert layer.compute_output_shape((2, 5, 8)) == tuple(expected)
    assert layer.compute_output_shape((None, None, 8)) == (None, None, expected[-1])
    if "dropout" not in name:
        with pytest.raises(ValueError, match=r"8\]|axes \[-1\]"):
            layer.compute_output_shape((2, 5, 16))


@pytest.mark.parametrize("name", LAYERS)
def test_bfloat16_output_is_close_to_float32(name):
    layer, inputs = LAYERS[name]
    config = layer.get_config()
    half = type(layer).from_config({**config, "dtype": "mixed_bfloat16"})
    full = type(layer).from_config(config)
    values = [random((2, 5, 8), seed) for seed in range(inputs)]
    expected, output = full(*values), half(*values)
    half.set_weights(full.get_weights())
    output = half(*values)
    assert output.dtype == "bfloat16"
    np.testing.assert_allclose(
        np.asarray(output).astype(np.float32), expected, atol=0.15
    )


def test_embedding_gradient_is_exact_in_bfloat16():
    layer = SharedEmbedding(5, 4, dtype="mixed_bfloat16")
    layer.build()
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(tf.cast(layer(tf.fill([3000], 2)), tf.float32))
    gradient = tf.convert_to_tensor(tape.gradient(total, layer.embeddings.value))
    np.testing.assert_allclose(gradient[2], [6000.0] * 4)


def test_embedding_and_logits_share_one_scaled_matrix():
    layer = SharedEmbedding(10, 16)
    layer.build()
    table = layer.embeddings.numpy()
    ids = np.array([[3, 9]])
    np.testing.assert_allclose(layer(ids), table[ids] * 4.0, rtol=1e-6)
    x = random((2, 3, 16))
    np.testing.assert_allclose(layer.logits(x), x @ table.T, atol=1e-5)
    # N(0, 1 / d_model): logits and embeddings start with unit variance.
    wide = SharedEmbedding(2000, 64)
    wide.build()
    assert wide.embeddings.numpy().std() == pytest.approx(64**-0.5, rel=0.02)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
