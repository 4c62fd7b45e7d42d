"""Layers reject wrong shapes and interpret attention masks consistently."""

import functools
import sys

import keras
import numpy as np
import pytest
import reference
import tensorflow as tf

from t2t_keras import (
    CrossAttention,
    Decoder,
    DecoderLayer,
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
    Transformer,
    padding_mask,
    scaled_dot_product_attention,
)
from t2t_keras.errors import UserError


def random(shape, seed=0):
    return tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32)


def built(layer, *inputs):
    """Returns a layer that has been called with inputs of width 8."""
    layer(*inputs or [random((2, 5, 8))])
    return layer


def stack(cls):
    return cls(num_layers=2, d_model=8, d_ff=16, num_heads=2)


def cross_attention():
    return built(CrossAttention(2, 8), *[random((2, 5, 8))] * 2)


def embedding():
    layer = SharedEmbedding(10, 8)
    layer.build()
    return layer


PAIR = [random((2, 5, 8))] * 2
CALLS = {
    "linear": lambda: built(Linear(3)),
    "feed_forward": lambda: built(FeedForward(8, 16)),
    "layer_norm": lambda: built(LayerNorm()),
    "self_attention": lambda: built(SelfAttention(2, 8)),
    "attention_query": lambda: functools.partial(_swapped, cross_attention(), PAIR[0]),
    "attention_memory": lambda: functools.partial(cross_attention(), PAIR[0]),
    "project_memory": lambda: cross_attention().project_memory,
    "residual_x": lambda: functools.partial(_swapped, Residual(8, 0.1), PAIR[0]),
    "residual_y": lambda: functools.partial(Residual(8, 0.1), PAIR[0]),
    "post_norm_input": lambda: built(Residual(8, 0.1), *PAIR).sublayer_input,
    "sinusoidal": lambda: SinusoidalPosition(8),
    "learned": lambda: built(LearnedPosition(8)),
    "logits": lambda: embedding().logits,
    "output_weights": lambda: built(OutputWeights(5, 8)),
    "sinusoidal_marian": lambda: MarianSinusoidalPosition(8),
    "encoder_layer": lambda: built(EncoderLayer(d_model=8, d_ff=16, num_heads=2)),
    "decoder_layer_x": lambda: functools.partial(
        _swapped, built(DecoderLayer(d_model=8, d_ff=16, num_heads=2), *PAIR), PAIR[0]
    ),
    "decoder_layer_memory": lambda: functools.partial(
        built(DecoderLayer(d_model=8, d_ff=16, num_heads=2), *PAIR), PAIR[0]
    ),
    "encoder": lambda: built(stack(Encoder)),
    "decoder_memory": lambda: functools.partial(built(stack(Decoder), *PAIR), PAIR[0]),
    "decoder_cache": lambda: built(stack(Decoder), *PAIR).empty_cache,
}
"""Callables of one argument of shape `[2, 5, 8]`."""


def _swapped(layer, second, first):
    return layer(first, second)


@pytest.mark.parametrize("name", CALLS)
def test_wrong_last_axis_is_rejected_statically_and_at_run_time(name):
    call = CALLS[name]()
    call(random((2, 5, 8)))
    # Without checks, width 16 would double the batch in a reshape, and width 1 would
    # broadcast.
    for width in (16, 4, 1):
        x = random((2, 5, width))
        with pytest.raises(ValueError, match=rf"8\]. Received shape: \[2, 5, {width}"):
            call(x)
        graph = tf.function(
            lambda x: call(x), input_signature=[tf.TensorSpec([None, None, None])]
        )
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(\?|5),8\]"):
            graph(x)
    graph(random((2, 5, 8)))


def test_wrong_last_axis_is_rejected_under_xla_and_in_gradients():
    layer = built(EncoderLayer(d_model=8, d_ff=16, num_heads=2))

    @tf.function(input_signature=[tf.TensorSpec([None] * 3)], jit_compile=True)
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(layer(x) ** 2)
        return tape.gradient(total, x)

    assert gradient(random((2, 5, 8))).shape == (2, 5, 8)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[\?,\?,8\]"):
        gradient(random((2, 5, 16)))


def test_wrong_last_axis_is_rejected_in_symbolic_calls():
    right, wrong = keras.Input((None, 8)), keras.Input((None, 16))
    for layer in (LayerNorm(), FeedForward(8, 16), MultiHeadAttention(2, 8)):
        layer(right)
        with pytest.raises(ValueError, match=r"Received shape: \[None, None, 16\]"):
            layer(wrong)
    for layer in (Residual(8, 0.1), DecoderLayer(d_model=8, d_ff=16, num_heads=2)):
        layer(right, right)
        with pytest.raises(ValueError, match=r"Received shape: \[None, None, 16\]"):
            layer(right, wrong)


def test_wrong_last_axis_is_rejected_by_first_call_and_by_build():
    with pytest.raises(ValueError, match=r"MultiHeadAttention 'it': query must .* 64"):
        MultiHeadAttention(4, 64, name="it")(tf.zeros([2, 5, 128]))
    with pytest.raises(ValueError, match=r"FeedForward 'it': x must have shape"):
        FeedForward(16, 32, name="it").build((None, None, 32))
    with pytest.raises(ValueError, match=r"Encoder 'it': x must have shape"):
        Encoder(num_layers=1, d_model=8, d_ff=8, num_heads=2, name="it").build(
            (None, None, 4)
        )
    with pytest.raises(
        ValueError, match="last axis of the input must have a known size"
    ):
        Linear(3).build((None, None))


def test_wrong_calls_do_not_raise_user_errors():
    # Commands report a UserError as a mistake of the user; these are bugs of a caller.
    attention, memory = CrossAttention(2, 8), random((2, 5, 8))
    calls = [
        lambda: attention(memory),
        lambda: attention(memory, memory, attention_mask=tf.ones([5, 5], tf.bool)),
        lambda: attention(memory, memory, attention_mask=tf.ones([2, 5, 5])),
        lambda: SelfAttention(2, 8)(random((2, 5, 4))),
    ]
    for call in calls:
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            call()
        assert not isinstance(caught.value, UserError)


@pytest.mark.parametrize("shape", [(5, 8), (2, 3, 5, 8)])
def test_wrong_rank_is_rejected(shape):
    for layer in (MultiHeadAttention(2, 8), SinusoidalPosition(8), stack(Encoder)):
        with pytest.raises(ValueError, match=r"\w+ must have shape \[None, None, 8\]"):
            layer(random(shape))
    assert Linear(3)(random(shape)).shape == (*shape[:-1], 3)
    with pytest.raises(ValueError, match=r"\[..., 8\]. Received shape: \[8\]"):
        FeedForward(8, 16)(random((8,)))


# Equal sizes, so that confusing the two axes does not raise an error by itself.
BATCH = HEADS = 2
SIZES = {"d_model": 8, "d_ff": 16, "num_heads": HEADS}
MASK = np.random.default_rng(1).random((BATCH, 5, 5)) > 0.4
MASK[..., 0] = True


def causal_and(mask):
    return np.tril(np.ones((5, 5), bool)) & mask


def transformer():
    return Transformer(source_vocab_size=12, num_layers=1, **SIZES)


def decode_with(name, mask):
    """Decodes five target positions with a five-token source."""
    ids = tf.constant([[5, 6, 7, 8, 9], [9, 8, 7, 6, 5]])
    model = transformer()
    arguments = {"memory_mask": padding_mask(ids), name: mask}
    return model.decode(ids, model.encode(ids), **arguments)


def decode_in_steps(mask):
    """Decodes five positions incrementally, each with its row of the mask."""
    layer = built(DecoderLayer(**SIZES), *PAIR)
    cache, outputs = layer.empty_cache(PAIR[1]), []
    for i in range(5):
        past = np.asarray(mask)[..., i : i + 1, : i + 1]
        result = layer(PAIR[0][:, i : i + 1], self_attention_mask=past, cache=cache)
        cache = result.cache
        outputs.append(result.output)
    return tf.concat(outputs, axis=1)


MASKED = {
    "attention": lambda m: SelfAttention(HEADS, 8)(PAIR[0], attention_mask=m),
    "cross_attention": lambda m: cross_attention()(*PAIR, attention_mask=m),
    "window": lambda m: SelfAttention(HEADS, 8, attention_window=4)(
        PAIR[0], attention_mask=m
    ),
    "window_with_scores": lambda m: (
        SelfAttention(HEADS, 8, attention_window=4)(
            PAIR[0], attention_mask=m, return_attention_scores=True
        ).scores
    ),
    "encoder_layer": lambda m: EncoderLayer(**SIZES)(PAIR[0], attention_mask=m),
    "encoder": lambda m: Encoder(num_layers=1, **SIZES)(PAIR[0], attention_mask=m),
    "decoder_layer": lambda m: DecoderLayer(**SIZES)(*PAIR, self_attention_mask=m),
    "decoder_layer_cross": lambda m: DecoderLayer(**SIZES)(
        *PAIR, cross_attention_mask=m
    ),
    "decoder": lambda m: Decoder(num_layers=1, **SIZES)(*PAIR, cross_attention_mask=m),
    "decode": functools.partial(decode_with, "self_attention_mask"),
    "decode_memory": functools.partial(decode_with, "memory_mask"),
    "steps": decode_in_steps,
}
"""Functions that compute outputs with a mask, with or without a heads axis."""


@pytest.mark.parametrize("name", MASKED)
def test_rank_3_mask_is_batch_query_key_and_rank_2_is_rejected(name):
    mask = causal_and(MASK)
    expected = MASKED[name](mask[:, np.newaxis])
    np.testing.assert_allclose(MASKED[name](mask), expected, atol=1e-6)
    other = MASKED[name](np.tril(np.ones((1, 1, 5, 5), bool)))
    assert np.abs(np.asarray(other) - expected).max() > 1e-3
    for two_axes in (mask[0], MASK[:, 0]):
        if name != "steps":
            with pytest.raises(ValueError, match=r"\[batch, query, key\] or"):
                MASKED[name](two_axes)


def test_rank_3_mask_matches_the_equations():
    layer = SelfAttention(HEADS, 8)
    output = layer(PAIR[0], attention_mask=MASK)
    np.testing.assert_array_equal(layer(PAIR[0], attention_mask=MASK.tolist()), output)
    expected = reference.multi_head_attention(
        reference.weights_of(layer), PAIR[0].numpy(), None, MASK, HEADS, 4, 4
    )
    np.testing.assert_allclose(output, expected, atol=1e-5)


def test_mask_axes_of_size_1_broadcast():
    layer = built(SelfAttention(HEADS, 8))
    for mask in (MASK[:1], MASK[:, :1], MASK[:, :, :1], MASK[:1, :1]):
        whole = np.broadcast_to(mask[:, np.newaxis], (BATCH, HEADS, 5, 5))
        np.testing.assert_array_equal(
            layer(PAIR[0], attention_mask=mask), layer(PAIR[0], attention_mask=whole)
        )


@pytest.mark.parametrize(
    "shape", [(3, 5, 5), (2, 4, 5), (2, 5, 6), (2, 3, 5, 5), (2, 2, 2, 5, 5)]
)
def test_mask_of_wrong_size_is_rejected(shape):
    layer = built(SelfAttention(HEADS, 8))
    with pytest.raises(ValueError, match="must broadcast to the attention weights"):
        layer(PAIR[0], attention_mask=np.ones(shape, bool))


def test_mask_larger_than_the_query_does_not_enlarge_the_output():
    layer = built(SelfAttention(HEADS, 8))
    one = PAIR[0][:, :1]
    with pytest.raises(ValueError, match="must broadcast to the attention weights"):
        layer(one, attention_mask=np.ones((2, 5, 1), bool))
    for length in (None, 1):
        graph = tf.function(
            lambda x, mask: layer(x, attention_mask=mask),
            input_signature=[
                tf.TensorSpec([None, length, 8]),
                tf.TensorSpec([None, None, None], tf.bool),
            ],
        )
        assert graph(one, np.ones((2, 1, 1), bool)).shape == (2, 1, 8)
        with pytest.raises(tf.errors.InvalidArgumentError):
            graph(one, np.ones((2, 5, 1), bool))


def test_mask_that_is_not_boolean_is_rejected():
    x = random((2, 2, 5, 4))
    for mask in (MASK.astype(np.int32), MASK.astype(np.float32)):
        with pytest.raises(ValueError, match="must be boolean"):
            scaled_dot_product_attention(x, x, x, mask)
        with pytest.raises(ValueError, match="must be boolean"):
            SelfAttention(HEADS, 8)(PAIR[0], attention_mask=mask)


def transformer_on():
    model = transformer()

    def call(source, target):
        source, target = (tf.cast(ids, tf.int32) for ids in (source, target))
        return model({"source": source, "target": target})

    return call


def decode_at():
    model = transformer()
    memory = model.encode(tf.ones([2, 5], tf.int32))
    mask = tf.ones([2, 1, 1, 5], tf.bool)

    def call(positions, ids):
        positions, ids = (tf.cast(x, tf.int32) for x in (positions, ids))
        return model.decode(ids, memory, mask, positions=positions)

    return call


def at_positions(layer):
    layer = built(layer)
    return lambda positions, x: layer(x, positions=tf.cast(positions, tf.int32))


IDS, POSITIONS = np.full((2, 5), 5, np.float32), np.arange(5, dtype=np.float32)
BROADCASTS = {
    "residual": lambda: (Residual(8, 0.1), *PAIR),
    "pre_norm_residual": lambda: (Residual(8, 0.1, pre_norm=True), *PAIR),
    "cross_attention": lambda: (CrossAttention(2, 8), *PAIR),
    "decoder_layer": lambda: (DecoderLayer(**SIZES), *PAIR),
    "decoder": lambda: (stack(Decoder), *PAIR),
    "transformer": lambda: (transformer_on(), IDS, IDS),
    "decode": lambda: (decode_at(), POSITIONS, IDS),
    "sinusoidal": lambda: (at_positions(SinusoidalPosition(8)), POSITIONS, PAIR[0]),
    "learned": lambda: (at_positions(LearnedPosition(8)), POSITIONS, PAIR[0]),
    "window": lambda: (
        at_positions(SelfAttention(2, 8, attention_window=3)),
        POSITIONS,
        PAIR[0],
    ),
}
"""Functions with two arguments, each of which could broadcast from size 1."""


@pytest.mark.parametrize("name", BROADCASTS)
def test_arguments_of_size_1_are_not_broadcast(name):
    function, first, second = BROADCASTS[name]()
    first, second = tf.constant(first), tf.constant(second)
    function(first, second)
    # Only the rank and the width of the inputs are known statically.
    unknown = [
        tf.TensorSpec([None, None, 8] if len(x.shape) == 3 else [None] * len(x.shape))
        for x in (first, second)
    ]
    graph = tf.function(
        lambda one, other: function(one, other), input_signature=unknown
    )
    np.testing.assert_allclose(graph(first, second), function(first, second), atol=1e-5)
    # Positions have no batch axis, so the other argument is shortened in length.
    shorter = second[:1] if len(first.shape) > 1 else second[:, :1]
    for wrong in ((first[:1], second), (first, shorter)):
        with pytest.raises(ValueError, match=r"\w+ must have shape .*Received shape"):
            function(*wrong)
        with pytest.raises(tf.errors.InvalidArgumentError):
            graph(*wrong)


def test_keys_of_another_batch_size_are_rejected():
    query, key = random((2, 3, 5, 4)), random((1, 3, 5, 4))
    for arguments in ((query, key, key), (query, query, key), (key, query, query)):
        with pytest.raises(ValueError, match="same batch and heads"):
            scaled_dot_product_attention(*arguments)
    layer = cross_attention()
    projected = layer.project_memory(PAIR[0][:1])
    with pytest.raises(ValueError, match=r"projected_memory.key must have shape \[2"):
        layer(PAIR[0], projected_memory=projected)
    decoder = built(stack(Decoder), *PAIR)
    cache = decoder.empty_cache(PAIR[1][:1])
    with pytest.raises(ValueError, match=r"cache.key must have shape \[2, 2, None, 4"):
        decoder(PAIR[0], cache=cache)
    graph = tf.function(
        lambda x: decoder(x, cache=cache).output,
        input_signature=[tf.TensorSpec([None, None, 8])],
    )
    assert graph(PAIR[0][:1]).shape == (1, 5, 8)
    with pytest.raises(tf.errors.InvalidArgumentError):
        graph(PAIR[0])


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
