"""The decoder (section 3.1, right half of Figure 1)."""

from typing import Any

import keras
import tensorflow as tf

from t2t_keras.layers.attention import KeyValue, MultiHeadAttention
from t2t_keras.layers.residual import Residual
from t2t_keras.layers.shapes import require_shape
from t2t_keras.layers.stack import Stack, SublayeredLayer

LayerCache = dict[str, KeyValue]
"""Keys and values that one decoder layer keeps between steps: "self" and "cross"."""


@keras.saving.register_keras_serializable("t2t_keras")
class DecoderLayer(SublayeredLayer):
    """Masked self-attention, attention to the encoder, feed-forward network.

    Args: a `TransformerConfig`, or single fields of one (`Configured`).

    Call arguments:
        x: `[batch, target, d_model]` float.
        memory: `[batch, source, d_model]` float, the encoder's output; unused where
            a cache holds its keys and values.
        self_attention_mask: `[batch, target, target]` or `[batch, heads, target,
            target]` bool, True = attend. Any axis may be 1. With a cache, the last
            axis is past + target.
        cross_attention_mask: Likewise; its last axis is the source.
        cache: What `empty_cache` or an earlier call returned, for decoding in steps.
        return_attention_scores: Also return both attentions' weights.
        training: Whether to drop.

    Returns:
        `[batch, target, d_model]` in the compute dtype; then, where asked for, the
        weights of self-attention and of attention to the encoder as a pair; then,
        where a cache was given, the cache with these positions appended.
    """

    attention_names = ("self_attention", "cross_attention")
    self_attention: MultiHeadAttention
    self_attention_residual: Residual
    cross_attention: MultiHeadAttention
    cross_attention_residual: Residual
    feed_forward_residual: Residual

    def empty_cache(self, memory: tf.Tensor) -> LayerCache:
        """Returns the cache before the first step.

        Args:
            memory: `[batch, source, d_model]` float, the encoder's output.

        Returns:
            "self": no positions yet; "cross": the keys and values of the memory.
        """
        return {
            "self": self.self_attention.empty_cache(tf.shape(memory)[0]),
            "cross": self.cross_attention.keys_values(memory),
        }

    def call(
        self,
        x: tf.Tensor,
        memory: tf.Tensor | None = None,
        self_attention_mask: tf.Tensor | None = None,
        cross_attention_mask: tf.Tensor | None = None,
        cache: LayerCache | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Applies the three sub-layers."""
        x = require_shape(x, (None, None, self.d_model), self, "x")
        residual = self.self_attention_residual
        y, self_scores, *self_cache = self.self_attention(
            residual.sublayer_input(x),
            attention_mask=self_attention_mask,
            cache=cache and cache["self"],
            return_attention_scores=True,
            training=training,
        )
        x = residual(x, y, training=training)

        residual = self.cross_attention_residual
        y, cross_scores, *cross_cache = self.cross_attention(
            residual.sublayer_input(x),
            memory,
            attention_mask=cross_attention_mask,
            cache=cache and cache["cross"],
            return_attention_scores=True,
            training=training,
        )
        x = residual(x, y, training=training)

        residual = self.feed_forward_residual
        y = self.feed_forward(residual.sublayer_input(x), training=training)
        x = residual(x, y, training=training)

        result: tuple[Any, ...] = (x,)
        if return_attention_scores:
            result += ((self_scores, cross_scores),)
        if cache is not None:
            result += ({"self": self_cache[0], "cross": cross_cache[0]},)
        return result if len(result) > 1 else x


@keras.saving.register_keras_serializable("t2t_keras")
class Decoder(Stack):
    """A stack of decoder layers; with pre-norm a normalization follows the last.

    Args: a `TransformerConfig`, or single fields of one (`Configured`).

    Call arguments and returns: as of `DecoderLayer`, but that attention scores are
    a list of one pair a layer, and the cache a list of one `LayerCache` a layer.
    """

    layer_class = DecoderLayer
    layers: list[DecoderLayer]

    def _depth(self) -> int:
        return self.config.depths()[1]

    def empty_cache(self, memory: tf.Tensor) -> list[LayerCache]:
        """Returns the caches of all layers before the first step.

        Args:
            memory: `[batch, source, d_model]` float, the encoder's output.
        """
        return [layer.empty_cache(memory) for layer in self.layers]

    def call(
        self,
        x: tf.Tensor,
        memory: tf.Tensor | None = None,
        self_attention_mask: tf.Tensor | None = None,
        cross_attention_mask: tf.Tensor | None = None,
        cache: list[LayerCache] | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Applies the layers in turn."""
        x = require_shape(x, (None, None, self.d_model), self, "x")
        scores = []
        new_cache = []
        for i, layer in enumerate(self.layers):
            x, layer_scores, *layer_cache = layer(
                x,
                memory,
                self_attention_mask=self_attention_mask,
                cross_attention_mask=cross_attention_mask,
                cache=cache and cache[i],
                return_attention_scores=True,
                training=training,
            )
            scores.append(layer_scores)
            new_cache += layer_cache
        if self.final_norm:
            x = self.final_norm(x)
        result: tuple[Any, ...] = (x,)
        if return_attention_scores:
            result += (scores,)
        if cache is not None:
            result += (new_cache,)
        return result if len(result) > 1 else x
