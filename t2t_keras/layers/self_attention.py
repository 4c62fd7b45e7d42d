"""Self-attention (section 3.2.3), optionally restricted to a window (section 4)."""

from typing import Any

import keras
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.layers.attention import Attention, AttentionResult, KeyValue
from t2t_keras.layers.dot_product import windowed_attention
from t2t_keras.layers.linear import Linear
from t2t_keras.layers.masks import fit_mask, window_mask
from t2t_keras.layers.shapes import Size, check_shape, require_shape, size_of


@keras.saving.register_keras_serializable("t2t_keras")
class SelfAttention(Attention):
    """Multi-head attention from a sequence to itself (section 3.2.3).

    One fused kernel projects queries, keys and values.

    Args:
        num_heads: Number of heads, h.
        d_model: Size of input and output.
        d_k: Size of a head's queries and keys. Default d_model / num_heads.
        d_v: Size of a head's values. Default d_k.
        attention_dropout: Dropout rate of the attention weights. Default 0.
        attention_bias: Whether the projections have biases. Default False.
        seed: Random seed of initializers and dropout. Default 0.
        attention_window: Keyword only. Restrict attention to positions at most half of
            this many tokens away (section 4, restricted self-attention, r). Time and
            memory then grow linearly with the length, unless the call returns the
            attention weights or receives a cache or positions. Default None: no
            restriction.

    Call arguments:
        query: `[batch, query, d_model]` float.
        attention_mask: Bool of shape `[batch, query, key]` or `[batch, heads, query,
            key]`, True = attend. Any axis may be 1. Default: attend to everything.
            With a cache, the key axis covers the cached keys, then those of `query`.
        cache: Keys and values of earlier positions: the result of `empty_cache`, or
            `key_value` of an earlier result. The keys and values of `query` are
            appended.
        positions: `[query]` or `[batch, query]` integer, the position of each query in
            its sequence, for the window. Several queries may share a position, as in
            beam search, where the mask separates the beams. Default: consecutive
            positions after the cached ones.
        key_positions: `[key]` or `[batch, key]` integer, the positions of all keys,
            cached keys first. Default: `positions` without a cache, 0, 1, 2, ... with
            one.
        return_attention_scores: Whether to return the attention weights too.
        training: Whether to apply dropout.

    Returns:
        `[batch, query, d_model]` in the compute dtype; with `return_attention_scores`
        or a cache, an `AttentionResult`.

    Raises:
        UserError: If `num_heads` does not divide `d_model` and `d_k` is not given, or
            `attention_window` is below 1.
        ValueError: If `positions` are given with a cache but without `key_positions`,
            or a call argument has the wrong shape or the mask the wrong dtype.
    """

    query_key_value: Linear

    def __init__(
        self, *args: Any, attention_window: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if attention_window is not None and attention_window < 1:
            raise UserError(
                f"attention_window must be at least 1. Received: {attention_window}"
            )
        self.attention_window = attention_window

    def _input_projections(self) -> dict[str, int]:
        return {"query_key_value": self.num_heads * (2 * self.d_k + self.d_v)}

    def build(self, query_shape: Any = None) -> None:
        """Creates all weights. Their sizes do not depend on the input."""
        shape = (None, None, self.d_model)
        check_shape(query_shape or shape, shape, self, "query")
        self._build()

    def empty_cache(self, batch: int | tf.Tensor, beams: int = 1) -> KeyValue:
        """Returns an empty cache for the first decoding step.

        Args:
            batch: Batch size.
            beams: Number of beams per row. Not used, as beams share one cache.

        Returns:
            Keys `[batch, heads, 0, d_k]` and values `[batch, heads, 0, d_v]`.
        """
        return KeyValue(
            tf.zeros([batch, self.num_heads, 0, self.d_k], self.compute_dtype),
            tf.zeros([batch, self.num_heads, 0, self.d_v], self.compute_dtype),
        )

    def reorder(self, cache: KeyValue, parents: tf.Tensor) -> KeyValue:
        """Returns the cache of new beams: the same one, as masks separate the beams.

        Args:
            cache: Keys and values.
            parents: See `SSRU.reorder`.
        """
        return cache

    def call(
        self,
        query: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        cache: KeyValue | None = None,
        positions: tf.Tensor | None = None,
        key_positions: tf.Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Computes attention from each position to the unmasked keys in its window."""
        query = require_shape(query, (None, None, self.d_model), self, "query")
        mask = self._checked_mask(attention_mask)
        depths = (self.d_k, self.d_k, self.d_v)
        sizes = [self.num_heads * depth for depth in depths]
        # Split, since its gradient is a concatenation. The gradient of three slices
        # would be a sum of three zero-padded tensors.
        parts = tf.split(self.query_key_value(query), sizes, axis=-1)
        query_heads, key, value = (
            self._split_heads(part, depth)
            for part, depth in zip(parts, depths, strict=True)
        )
        if cache is not None:
            shape = (query.shape[0], self.num_heads, None, self.d_k)
            check_shape(cache[0].shape, shape, self, "cache.key")
            key = tf.concat([cache[0], key], axis=2)
            value = tf.concat([cache[1], value], axis=2)
        is_full = return_attention_scores or cache is not None
        context, weights = self.attend(
            query_heads,
            key,
            value,
            mask,
            needs_weights=is_full,
            training=training,
            positions=self._positions(query, key, cache, positions, key_positions),
        )
        output = self._output(context, query)
        if not is_full:
            return output
        return AttentionResult(output, weights, KeyValue(key, value))

    def _positions(
        self,
        query: tf.Tensor,
        key: tf.Tensor,
        cache: KeyValue | None,
        positions: tf.Tensor | None,
        key_positions: tf.Tensor | None,
    ) -> tuple[tf.Tensor, tf.Tensor] | None:
        """Returns query and key positions, or None if both are 0, 1, 2, ..."""
        if positions is not None and key_positions is None and cache is not None:
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: key_positions, of the cached "
                "and the new keys, must be given with positions and a cache. Received: "
                "key_positions=None"
            )
        if not self.attention_window or (
            cache is None and positions is None and key_positions is None
        ):
            return None
        queries, keys = size_of(query, 1), size_of(key, 2)
        if positions is None and key_positions is None:
            key_positions = tf.range(keys)
        elif key_positions is None:
            key_positions = positions
        key_positions = _require_positions(key_positions, keys, self, "key_positions")
        if positions is None:
            positions = key_positions[:, keys - queries :]
        return _require_positions(positions, queries, self, "positions"), key_positions

    def attend(
        self,
        query: tf.Tensor,
        key: tf.Tensor,
        value: tf.Tensor,
        mask: tf.Tensor | None,
        needs_weights: bool,
        training: bool | None,
        positions: tuple[tf.Tensor, tf.Tensor] | None = None,
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Computes attention on projected queries, keys and values.

        Args:
            query: `[batch, heads, query, d_k]`, projected.
            key: `[batch, heads, key, d_k]`, projected.
            value: `[batch, heads, key, d_v]`, projected.
            mask: See `attention_mask` in the call arguments.
            needs_weights: Whether to return the attention weights.
            training: Whether to apply dropout.
            positions: Positions of the queries, `[batch or 1, query]`, and of the
                keys, `[batch or 1, key]`. Default: 0, 1, 2, ... for both.

        Returns:
            The context `[batch, heads, query, d_v]` and the attention weights
            `[batch, heads, query, key]`, which may be None without `needs_weights`.
        """
        window = self.attention_window
        if not window:
            return super().attend(query, key, value, mask, needs_weights, training)
        if mask is not None:
            mask = fit_mask(mask, [*query.shape[:3], key.shape[2]])
        if positions is None and not needs_weights:
            context = windowed_attention(
                query, key, value, mask, self.dropout, training, window
            )
            return context, None
        if positions is None:
            positions = (tf.range(tf.shape(query)[2]), tf.range(tf.shape(key)[2]))
        near = window_mask(*positions, window)
        mask = near if mask is None else mask & near
        return super().attend(query, key, value, mask, needs_weights, training)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), "attention_window": self.attention_window}


def _require_positions(
    positions: Any, length: Size, layer: keras.layers.Layer, argument: str
) -> tf.Tensor:
    """Checks the shape of positions and returns them as `[batch or 1, length]`."""
    positions = tf.cast(positions, tf.int32)
    if positions.shape.rank == 1:
        return require_shape(positions, (length,), layer, argument)[tf.newaxis]
    return require_shape(positions, (None, length), layer, argument)


@keras.saving.register_keras_serializable("t2t_keras")
class MultiHeadAttention(SelfAttention):
    """`SelfAttention` under the name that the paper uses (section 3.2.2).

    Unlike `keras.layers.MultiHeadAttention`, it attends only to its own input. Use
    `CrossAttention` to attend to a memory.
    """
