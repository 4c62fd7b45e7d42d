"""Attention against the paper's equations."""

import sys

import numpy as np
import pytest
import reference
import tensorflow as tf

from t2t_keras import (
    CrossAttention,
    MultiHeadAttention,
    SelfAttention,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
    window_mask,
    windowed_attention,
)


def random(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_worked_example_of_three_words():
    # Computed by hand. `products` is Q K^T; the scores are Q K^T / 2.
    q = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]], np.float32)
    k = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0]], np.float32)
    v = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], np.float32)
    products = np.array([[1, 1, 2], [1, 1, 0], [2, 0, 1]])
    e = np.exp(products / 2)
    expected_weights = e / e.sum(1, keepdims=True)
    output, weights = scaled_dot_product_attention(q, k, v)
    np.testing.assert_allclose(weights, expected_weights, atol=1e-6)
    np.testing.assert_allclose(output, expected_weights @ v, atol=1e-6)
    # 1 / (1 + 1 + sqrt(e)) = 0.27406...
    np.testing.assert_allclose(weights[0], [0.274069, 0.274069, 0.451863], atol=1e-6)
    np.testing.assert_allclose(output[0], [0.335559, 0.435559], atol=1e-6)


def test_masked_attention_matches_the_equation():
    q, k, v = random((2, 3, 5, 8)), random((2, 3, 7, 8), 1), random((2, 3, 7, 6), 2)
    mask = np.ones((2, 1, 1, 7), bool)
    mask[0, ..., 4:] = False
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    expected, expected_weights = reference.attention(
        *(x.astype(np.float64) for x in (q, k, v)), mask
    )
    np.testing.assert_allclose(output, expected, atol=1e-5)
    np.testing.assert_allclose(weights, expected_weights, atol=1e-5)


def test_fully_masked_query_attends_to_all_keys_equally():
    x = random((1, 1, 2, 4))
    output, weights = scaled_dot_product_attention(
        x, x, x, np.zeros((1, 1, 2, 2), bool)
    )
    np.testing.assert_array_equal(weights, np.full((1, 1, 2, 2), 0.5))
    np.testing.assert_allclose(output[0, 0, 0], x[0, 0].mean(0), rtol=1e-6)


@pytest.mark.parametrize("cls", [SelfAttention, CrossAttention])
@pytest.mark.parametrize(("d_k", "d_v"), [(None, None), (3, 7)])
def test_multi_head_attention_matches_the_equations(cls, d_k, d_v):
    layer = cls(4, 16, d_k, d_v, seed=1)
    memory = random((2, 6, 16), 1) if cls is CrossAttention else None
    inputs = [random((2, 5, 16))] + ([] if memory is None else [memory])
    mask = np.random.default_rng(2).random((2, 1, 5, 5 if memory is None else 6)) > 0.3
    mask[..., 0] = True
    result = layer(*inputs, attention_mask=mask, return_attention_scores=True)
    expected = reference.multi_head_attention(
        reference.weights_of(layer),
        inputs[0],
        memory,
        mask[:, 0],
        4,
        d_k or 4,
        d_v or d_k or 4,
    )
    np.testing.assert_allclose(result.output, expected, atol=1e-5)
    np.testing.assert_array_equal(layer(*inputs, attention_mask=mask), result.output)
    assert result.scores.shape == (2, 4, *mask.shape[2:])
    np.testing.assert_allclose(np.sum(result.scores, -1), 1, atol=1e-5)
    assert result.key_value.key.shape == (2, 4, mask.shape[3], d_k or 4)


def test_projections_have_biases_only_with_attention_bias():
    for bias, count in ((False, 2), (True, 4)):
        layer = SelfAttention(2, 8, attention_bias=bias)
        layer(random((1, 3, 8)))
        assert len(layer.trainable_weights) == count


def test_incremental_self_attention_matches_parallel_self_attention():
    layer = SelfAttention(2, 8)
    x = random((2, 4, 8))
    causal = np.tril(np.ones((4, 4), bool))[None, None]
    expected = layer(x, attention_mask=causal)
    cache = layer.empty_cache(2)
    for i in range(4):
        result = layer(x[:, i : i + 1], cache=cache)
        np.testing.assert_allclose(result.output[:, 0], expected[:, i], atol=1e-5)
        cache = result.key_value
    assert cache.key.shape == (2, 2, 4, 4)
    # The keys and values of a call without a cache can be used as a cache.
    prefix = layer(
        x[:, :3], attention_mask=causal[..., :3, :3], return_attention_scores=True
    )
    result = layer(x[:, 3:], cache=prefix.key_value)
    np.testing.assert_allclose(result.output[:, 0], expected[:, 3], atol=1e-5)


def test_projected_memory_gives_the_same_output_as_the_memory():
    layer = CrossAttention(2, 8)
    x, memory = random((2, 3, 8)), random((2, 5, 8), 1)
    expected = layer(x, memory)
    projected = layer.project_memory(tf.constant(memory))
    np.testing.assert_allclose(
        layer(x, projected_memory=projected), expected, atol=1e-6
    )
    result = layer(x, memory, return_attention_scores=True)
    np.testing.assert_array_equal(result.key_value.value, projected.value)


def test_cross_attention_takes_exactly_one_memory():
    x = random((1, 2, 8))
    layer = CrossAttention(2, 8)
    with pytest.raises(ValueError, match=r"Received: neither.*use SelfAttention"):
        layer(x)
    with pytest.raises(ValueError, match=r"Received: both"):
        layer(x, x, projected_memory=layer.project_memory(tf.constant(x)))
    # The second argument of self-attention is the mask, not a memory.
    with pytest.raises(ValueError, match="mask must be boolean"):
        SelfAttention(2, 8)(x, x)


def test_build_without_shapes_creates_all_kernels():
    for cls, names in (
        (SelfAttention, ["query_key_value", "output_projection"]),
        (CrossAttention, ["query", "key_value", "output_projection"]),
    ):
        layer = cls(2, 8, name="it")
        layer.build()
        paths = {weight.path for weight in layer.trainable_weights}
        assert paths == {f"it/{name}/kernel" for name in names}


def test_multi_head_attention_is_self_attention():
    x = random((2, 5, 8))
    np.testing.assert_array_equal(
        MultiHeadAttention(num_heads=2, d_model=8)(x), SelfAttention(2, 8)(x)
    )


def test_num_heads_that_does_not_divide_d_model_is_rejected():
    with pytest.raises(ValueError, match="d_model=10, num_heads=4"):
        SelfAttention(4, 10)


@pytest.mark.parametrize("window", [1, 2, 5, 8, 40])
@pytest.mark.parametrize("kind", ["none", "padding", "causal", "both"])
def test_windowed_attention_matches_attention_with_window_mask(window, kind):
    length = 13
    q, k, v = (
        random((2, 3, length, 8)),
        random((2, 3, length, 8), 1),
        random((2, 3, length, 6), 2),
    )
    masks = {
        "none": None,
        "padding": padding_mask(tf.constant([[1] * 13, [1] * 9 + [0] * 4])),
        "causal": causal_mask(length),
    }
    masks["both"] = masks["padding"] & masks["causal"]
    mask = masks[kind]
    near = window_mask(tf.range(length), tf.range(length), window)
    expected, _ = scaled_dot_product_attention(
        q, k, v, near if mask is None else near & mask
    )
    output = windowed_attention(q, k, v, mask, window=window)
    # Queries after the end may attend to nothing but padding, so skip them.
    np.testing.assert_allclose(output[0], expected[0], atol=1e-6)
    np.testing.assert_allclose(output[1, :, :9], expected[1, :, :9], atol=1e-6)


@pytest.mark.parametrize(
    "shape", [(6,), (6, 6), (1, 6, 6), (2, 1, 1, 6), (1, 1, 6, 1), (1, 1, 1, 1)]
)
@pytest.mark.parametrize("known", [True, False])
def test_windowed_attention_accepts_all_masks_that_broadcast(shape, known):
    q, k, v = (random((2, 3, 6, 4), seed) for seed in range(3))
    mask = np.random.default_rng(3).random(shape) < 0.7
    rank_or_sizes = shape if known else [None] * len(shape)

    @tf.function(input_signature=[tf.TensorSpec(rank_or_sizes, tf.bool)])
    def attend(mask):
        return windowed_attention(q, k, v, mask, window=4)

    near = window_mask(tf.range(6), tf.range(6), 4)
    expected, weights = scaled_dot_product_attention(q, k, v, near & mask)
    seen = np.any(np.broadcast_to(near & mask, weights.shape), axis=-1)
    np.testing.assert_allclose(attend(mask)[seen], expected[seen], atol=1e-6)
    assert seen.sum() > 3


def test_window_mask_matches_hand_written_values():
    expected = [
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [0, 1, 1, 1],
        [0, 0, 1, 1],
    ]
    positions = tf.range(4)
    np.testing.assert_array_equal(window_mask(positions, positions, 3)[0, 0], expected)
    np.testing.assert_array_equal(
        window_mask(positions[3:], positions, 3)[0, 0], expected[-1:]
    )
    # Two queries that share a position, and different key positions per row.
    beams = window_mask([2, 2], [[0, 0, 1, 1, 2, 2], [1, 1, 2, 2, 3, 3]], 3)
    rows = [[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]]
    np.testing.assert_array_equal(beams[:, 0], [[row, row] for row in rows])
    with pytest.raises(ValueError, match=r"\[batch, length\]. Received shape: \(\)"):
        window_mask(4, 4, 3)


def test_window_gives_equal_outputs_in_all_call_forms():
    layer = SelfAttention(2, 8, attention_window=4, seed=1)
    x = tf.constant(random((2, 9, 8)))
    whole = layer(x, attention_mask=causal_mask(9))
    full = layer(x, attention_mask=causal_mask(9), return_attention_scores=True)
    np.testing.assert_allclose(whole, full.output, atol=1e-6)
    assert not np.asarray(full.scores)[:, :, 8, :6].any()
    by_positions = layer(x, attention_mask=causal_mask(9), positions=tf.range(9) + 7)
    np.testing.assert_allclose(whole, by_positions, atol=1e-6)
    cache, steps = layer.empty_cache(2), []
    for i in range(9):
        step = layer(x[:, i : i + 1], cache=cache)
        cache = step.key_value
        steps.append(step.output)
    np.testing.assert_allclose(tf.concat(steps, axis=1), whole, atol=1e-6)
    plain = SelfAttention(2, 8, seed=1)
    plain(x)
    plain.set_weights(layer.get_weights())
    assert np.abs(plain(x, attention_mask=causal_mask(9)) - whole).max() > 1e-3
    again = SelfAttention.from_config(layer.get_config())
    assert again.attention_window == 4


def test_window_depends_on_positions_and_not_on_cache_indices():
    # Two sequences in one row, such as two beams: their keys alternate in the cache.
    layer = SelfAttention(2, 8, attention_window=4, seed=1)
    x = tf.constant(random((2, 9, 8)))
    expected = layer(x, attention_mask=causal_mask(9))
    cache = layer.empty_cache(1)
    own = np.eye(2, dtype=bool)
    for i in range(9):
        # [2, 1, d_model] -> [1, 2, d_model]
        step = layer(
            tf.transpose(x[:, i : i + 1], [1, 0, 2]),
            attention_mask=np.tile(own, i + 1)[np.newaxis],
            cache=cache,
            positions=[i, i],
            key_positions=np.repeat(range(i + 1), 2),
        )
        cache = step.key_value
        np.testing.assert_allclose(step.output[0], expected[:, i], atol=1e-6)
    with pytest.raises(ValueError, match=r"key_positions.*must be given with"):
        layer(x[:1, :2], cache=cache, positions=[9, 9])


def test_window_below_1_is_rejected():
    with pytest.raises(ValueError, match=r"at least 1\. Received: 0"):
        SelfAttention(2, 8, attention_window=0)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
