"""Attention (section 3.2)."""

from typing import Any

import keras
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.layers.dot_product import (
    scaled_dot_product_attention,
    windowed_attention,
)
from t2t_keras.layers.dropout import Dropout
from t2t_keras.layers.linear import Linear
from t2t_keras.layers.masks import fit_mask, window_mask
from t2t_keras.layers.seeds import child_seed
from t2t_keras.layers.shapes import check_shape, require_shape, reshape_last
from t2t_keras.layers.symbolic import TracedOutputs

KeyValue = tuple[tf.Tensor, tf.Tensor]
"""Keys `[batch, heads, key, d_k]` and values `[batch, heads, key, d_v]`."""


@keras.saving.register_keras_serializable("t2t_keras")
class MultiHeadAttention(TracedOutputs, keras.layers.Layer):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (section 3.2.2).

    A layer is either self-attention, called as `layer(x)`, with one fused kernel
    for queries, keys and values; or attention to a memory, `layer(x, memory)`, with
    one kernel for queries and one for keys and values. Its first call decides.

    Args:
        num_heads: Number of heads, h.
        d_model: Size of input and output.
        d_k: Size of a head's queries and keys. Default d_model / num_heads.
        d_v: Size of a head's values. Default d_k.
        attention_dropout: Share of attention weights dropped. Default 0.
        attention_bias: Whether the projections have biases. Default False, as in
            the paper's own code.
        seed: Seed of initializers and dropout. Default 0.
        attention_window: Of self-attention: each position attends only to those at
            most half of this away (section 4, r), in time and memory that grow with the
            length, not with its square, unless the weights are asked for or a cache is
            given. Default None: to all.

    Call arguments:
        query: `[batch, query, d_model]` float.
        memory: `[batch, key, d_model]` float to attend to; None for self-attention.
        attention_mask: Bool of shape `[batch, query, key]` or `[batch, heads, query,
            key]`, True = attend. Any axis may be 1. Default: attend to everything.
        cache: Self-attention: keys and values of earlier positions, to which those
            of `query` are appended. Attention to a memory: what `keys_values`
            returned for it, in place of `memory`.
        return_attention_scores: Also return the attention weights.
        training: Whether to drop.

    Returns:
        `[batch, query, d_model]` in the compute dtype; followed, where asked for, by
        the weights `[batch, heads, query, key]`, and, where a cache was given, by
        the keys and values that were attended to.

    Raises:
        UserError: If `num_heads` does not divide `d_model` and `d_k` is not given, or
            `attention_window` is below 1.
        ValueError: If `attention_window` is given for attention to a memory, a layer
            is called in both ways, or a call argument has the wrong shape or the mask
            the wrong dtype.
    """

    def __init__(
        self,
        num_heads: int,
        d_model: int,
        d_k: int | None = None,
        d_v: int | None = None,
        attention_dropout: float = 0.0,
        attention_bias: bool = False,
        seed: int = 0,
        attention_window: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if attention_window is not None and attention_window < 1:
            raise UserError(
                f"attention_window is at least 1. Received: {attention_window}"
            )
        if d_k is None and d_model % num_heads:
            raise UserError(
                "Without d_k, d_model must be a multiple of num_heads. "
                f"Received: d_model={d_model}, num_heads={num_heads}"
            )
        self.num_heads = num_heads
        self.d_model = d_model
        self.d_k = d_k or d_model // num_heads
        self.d_v = d_v or self.d_k
        self.attention_dropout = attention_dropout
        self.attention_bias = attention_bias
        self.attention_window = attention_window
        self.seed = seed
        self.dropout = Dropout(
            attention_dropout, seed, dtype=self.dtype_policy, name="dropout"
        )
        self.output_projection = self._projection(d_model, "output_projection")

    def _projection(self, units: int, name: str) -> Linear:
        return Linear(
            units,
            self.attention_bias,
            child_seed(self.seed, name),
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, query_shape: Any, memory_shape: Any = None) -> None:
        """Creates the projections for self-attention or for a memory."""
        shape = (None, None, self.d_model)
        check_shape(query_shape, shape, self, "query")
        check_shape(memory_shape or shape, shape, self, "memory")
        queries = self.num_heads * self.d_k
        keys_values = self.num_heads * (self.d_k + self.d_v)
        self.is_self_attention = memory_shape is None
        if self.attention_window and not self.is_self_attention:
            raise ValueError(
                f"{self.name} has attention_window={self.attention_window}, but a "
                "window is for self-attention: a memory has positions of its own."
            )
        if self.is_self_attention:
            self.query_key_value = self._projection(
                queries + keys_values, "query_key_value"
            )
            self.query_key_value.build((None, None, self.d_model))
        else:
            self.query = self._projection(queries, "query")
            self.query.build((None, None, self.d_model))
            self.key_value = self._projection(keys_values, "key_value")
            self.key_value.build((None, None, self.d_model))
        self.output_projection.build((None, None, self.num_heads * self.d_v))
        self.dropout.build((None, None, None, None))
        self.built = True

    def _split_heads(self, x: tf.Tensor, depth: int) -> tf.Tensor:
        # [batch, length, heads * depth] -> [batch, length, heads, depth]
        x = reshape_last(x, x, 2, [self.num_heads, depth])
        # -> [batch, heads, length, depth]
        return tf.transpose(x, [0, 2, 1, 3])

    def keys_values(self, memory: tf.Tensor) -> KeyValue:
        """Projects a memory once, for use as the `cache` of many calls.

        Args:
            memory: `[batch, key, d_model]` float.

        Returns:
            Keys `[batch, heads, key, d_k]` and values `[batch, heads, key, d_v]`.
        """
        memory = require_shape(memory, (None, None, self.d_model), self, "memory")
        sizes = [self.num_heads * self.d_k, self.num_heads * self.d_v]
        key, value = tf.split(self.key_value(memory), sizes, axis=-1)
        return self._split_heads(key, self.d_k), self._split_heads(value, self.d_v)

    def empty_cache(self, batch: int | tf.Tensor) -> KeyValue:
        """Returns the cache of a self-attention that has seen no position yet.

        Args:
            batch: Number of rows.

        Returns:
            Keys `[batch, heads, 0, d_k]` and values `[batch, heads, 0, d_v]`.
        """
        return (
            tf.zeros([batch, self.num_heads, 0, self.d_k], self.compute_dtype),
            tf.zeros([batch, self.num_heads, 0, self.d_v], self.compute_dtype),
        )

    def call(
        self,
        query: tf.Tensor,
        memory: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
        cache: KeyValue | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Attends from each query position to the keys that the mask shows it."""
        if self.is_self_attention and memory is not None:
            raise ValueError(
                f"{self.name} was first called as self-attention: it has no projection "
                "for a memory. Make another layer for that."
            )
        if not self.is_self_attention and memory is None and cache is None:
            raise ValueError(
                f"{self.name} was first called with a memory: it needs one. Make "
                "another layer for self-attention."
            )
        query = require_shape(query, (None, None, self.d_model), self, "query")
        if attention_mask is not None:
            attention_mask = tf.convert_to_tensor(attention_mask)
            # Rank 2 is ambiguous: [batch, key] or [query, key].
            if attention_mask.shape.rank in (0, 1, 2):
                raise ValueError(
                    f"{type(self).__name__} {self.name!r} expects attention_mask of "
                    "shape [batch, query, key] or [batch, heads, query, key] (any axis "
                    f"may be 1). Received shape: {attention_mask.shape}"
                )
        if self.is_self_attention:
            depths = (self.d_k, self.d_k, self.d_v)
            sizes = [self.num_heads * depth for depth in depths]
            # The gradient of a split is a concatenation; that of slices would be a
            # sum of three zero-padded tensors.
            parts = tf.split(self.query_key_value(query), sizes, axis=-1)
            query_heads, key, value = (
                self._split_heads(part, depth)
                for part, depth in zip(parts, depths, strict=True)
            )
            if cache is not None:
                key = tf.concat([cache[0], key], axis=2)
                value = tf.concat([cache[1], value], axis=2)
        else:
            query_heads = self._split_heads(self.query(query), self.d_k)
            key, value = self.keys_values(memory) if cache is None else cache

        context, weights = self.attend(
            query_heads,
            key,
            value,
            attention_mask,
            needs_weights=return_attention_scores or cache is not None,
            training=training,
        )
        # [batch, heads, query, d_v] -> [batch, query, heads * d_v]
        context = tf.transpose(context, [0, 2, 1, 3])
        # The shape of the query, not of the context: a mask must not enlarge it.
        context = reshape_last(context, query, 2, [self.num_heads * self.d_v])
        result: tuple[Any, ...] = (self.output_projection(context),)
        if return_attention_scores:
            result += (weights,)
        if cache is not None:
            result += ((key, value),)
        return result if len(result) > 1 else result[0]

    def attend(
        self,
        query: tf.Tensor,
        key: tf.Tensor,
        value: tf.Tensor,
        mask: tf.Tensor | None,
        needs_weights: bool,
        training: bool | None,
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Does what lies between the projections: every call goes through here.

        Args:
            query: `[batch, heads, query, d_k]`, projected.
            key: `[batch, heads, key, d_k]`, projected.
            value: `[batch, heads, key, d_v]`, projected.
            mask: As `attention_mask` of a call.
            needs_weights: Whether the weights are wanted.
            training: Whether to drop.

        Returns:
            `[batch, heads, query, d_v]`, and the weights `[batch, heads, query, key]`
            where they are wanted.
        """
        if mask is not None:
            mask = fit_mask(mask, [*query.shape[:3], key.shape[2]])
        window = self.attention_window
        if window and not needs_weights:
            context = windowed_attention(
                query, key, value, mask, self.dropout, training, window
            )
            return context, None
        if window:
            near = window_mask(tf.shape(query)[2], tf.shape(key)[2], window)
            mask = near if mask is None else mask & near
        return scaled_dot_product_attention(
            query, key, value, mask, self.dropout, training
        )

    def compute_output_shape(self, query_shape: Any, memory_shape: Any = None) -> Any:
        """Returns the shape of the output, which is that of the query."""
        shape = (None, None, self.d_model)
        check_shape(query_shape, shape, self, "query")
        check_shape(memory_shape or shape, shape, self, "memory")
        return tuple(query_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "d_model": self.d_model,
            "d_k": self.d_k,
            "d_v": self.d_v,
            "attention_dropout": self.attention_dropout,
            "attention_bias": self.attention_bias,
            "attention_window": self.attention_window,
            "seed": self.seed,
        }
