"""The decoder (section 3.1, right half of Figure 1)."""

from typing import Any

import keras
import tensorflow as tf

from t2t_keras.layers.cross_attention import CrossAttention
from t2t_keras.layers.decoder_outputs import (
    DecoderCache,
    DecoderResult,
    DecoderScores,
    LayerCache,
)
from t2t_keras.layers.layer_stack import Stack, SublayeredLayer
from t2t_keras.layers.residual import Residual
from t2t_keras.layers.self_attention import SelfAttention
from t2t_keras.layers.shapes import require_shape, size_of


@keras.saving.register_keras_serializable("t2t_keras")
class DecoderLayer(SublayeredLayer):
    """Decoder layer: masked self-attention, cross-attention, feed-forward network.

    Args: A `TransformerConfig`, or individual fields of one (see `Configured`).

    Call arguments:
        x: `[batch, target, d_model]` float.
        memory: `[batch, source, d_model]` float, the encoder's output. Ignored with a
            cache, which already contains its keys and values.
        self_attention_mask: `[batch, target, target]` or `[batch, heads, target,
            target]` bool, True = attend. Any axis may be 1. With a cache, the last
            axis has the size past + target.
        cross_attention_mask: `[batch, target, source]` or `[batch, heads, target,
            source]` bool, True = attend. Any axis may be 1.
        cache: Cache for incremental decoding: the result of `empty_cache`, or `cache`
            of an earlier result.
        positions: See `SelfAttention`.
        key_positions: See `SelfAttention`.
        return_attention_scores: Whether to return the weights of both attentions too.
        training: Whether to apply dropout.

    Returns:
        `[batch, target, d_model]` in the compute dtype; with `return_attention_scores`
        or a cache, a `DecoderResult`.
    """

    attention_names = ("self_attention", "cross_attention")
    self_attention: SelfAttention
    self_attention_residual: Residual
    cross_attention: CrossAttention
    cross_attention_residual: Residual
    feed_forward_residual: Residual

    def empty_cache(self, memory: tf.Tensor) -> LayerCache:
        """Returns an empty cache for the first decoding step.

        Args:
            memory: `[batch, source, d_model]` float, the encoder's output.
        """
        return LayerCache(
            self.self_attention.empty_cache(tf.shape(memory)[0]),
            self.cross_attention.project_memory(memory),
        )

    def call(
        self,
        x: tf.Tensor,
        memory: tf.Tensor | None = None,
        self_attention_mask: tf.Tensor | None = None,
        cross_attention_mask: tf.Tensor | None = None,
        cache: LayerCache | None = None,
        positions: tf.Tensor | None = None,
        key_positions: tf.Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Applies the three sub-layers."""
        x = require_shape(x, (None, None, self.d_model), self, "x")
        is_full = return_attention_scores or cache is not None
        residual = self.self_attention_residual
        attended = self.self_attention(
            residual.sublayer_input(x),
            attention_mask=self_attention_mask,
            cache=None if cache is None else cache.self_attention,
            positions=positions,
            key_positions=key_positions,
            return_attention_scores=is_full,
            training=training,
        )
        x = residual(x, attended.output if is_full else attended, training=training)

        residual = self.cross_attention_residual
        crossed = self.cross_attention(
            residual.sublayer_input(x),
            memory if cache is None else None,
            attention_mask=cross_attention_mask,
            projected_memory=None if cache is None else cache.memory,
            return_attention_scores=is_full,
            training=training,
        )
        x = residual(x, crossed.output if is_full else crossed, training=training)

        residual = self.feed_forward_residual
        y = self.feed_forward(residual.sublayer_input(x), training=training)
        x = residual(x, y, training=training)
        if not is_full:
            return x
        return DecoderResult(
            x,
            DecoderScores(attended.scores, crossed.scores),
            LayerCache(attended.key_value, crossed.key_value),
        )


@keras.saving.register_keras_serializable("t2t_keras")
class Decoder(Stack):
    """Stack of decoder layers. With pre-norm, it ends with a layer normalization.

    Args: A `TransformerConfig`, or individual fields of one (see `Configured`).

    Call arguments: The same as in `DecoderLayer`, except for `key_positions`, which
    the cache contains.

        positions: `[target]` integer, the position of each target token in its
            sequence. Several tokens may share a position, as in beam search. Default:
            consecutive positions after the cached ones.

    Returns:
        The same as `DecoderLayer`, but the attention weights are a list with one
        `DecoderScores` per layer, and the cache is a `DecoderCache`.
    """

    layer_class = DecoderLayer
    layers: list[DecoderLayer]

    def _depth(self) -> int:
        return self.config.depths()[1]

    def empty_cache(self, memory: tf.Tensor) -> DecoderCache:
        """Returns an empty cache for the first decoding step.

        Args:
            memory: `[batch, source, d_model]` float, the encoder's output.
        """
        return DecoderCache(
            tf.zeros([tf.shape(memory)[0], 1, 0], tf.int32),
            [layer.empty_cache(memory) for layer in self.layers],
        )

    def call(
        self,
        x: tf.Tensor,
        memory: tf.Tensor | None = None,
        self_attention_mask: tf.Tensor | None = None,
        cross_attention_mask: tf.Tensor | None = None,
        cache: DecoderCache | None = None,
        positions: tf.Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Applies the layers in order."""
        x = require_shape(x, (None, None, self.d_model), self, "x")
        is_full = return_attention_scores or cache is not None
        key_positions = None
        if is_full:
            # The attention weights and the cache always cover all positions.
            past = (
                tf.zeros([tf.shape(x)[0], 1, 0], tf.int32)
                if cache is None
                else cache.positions
            )
            if positions is None:
                positions = tf.shape(past)[2] + tf.range(size_of(x, 1))
            key_positions = _append(past, positions)
        scores, caches = [], []
        for i, layer in enumerate(self.layers):
            result = layer(
                x,
                memory,
                self_attention_mask=self_attention_mask,
                cross_attention_mask=cross_attention_mask,
                cache=None if cache is None else cache.layers[i],
                positions=positions,
                key_positions=None if key_positions is None else key_positions[:, 0],
                return_attention_scores=is_full,
                training=training,
            )
            if is_full:
                scores.append(result.scores)
                caches.append(result.cache)
            x = result.output if is_full else result
        if self.final_norm:
            x = self.final_norm(x)
        if not is_full:
            return x
        return DecoderResult(x, scores, DecoderCache(key_positions, caches))


def _append(past: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    # [target] -> [batch, 1, target]; then [batch, 1, past + target]
    positions = tf.cast(positions, tf.int32)[tf.newaxis, tf.newaxis]
    shape = [tf.shape(past)[0], 1, tf.shape(positions)[2]]
    return tf.concat([past, tf.broadcast_to(positions, shape)], axis=2)
