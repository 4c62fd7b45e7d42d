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
from t2t_keras.layers.feed_forward import FeedForward
from t2t_keras.layers.layer_stack import Stack, SublayeredLayer
from t2t_keras.layers.residual import Residual
from t2t_keras.layers.self_attention import SelfAttention
from t2t_keras.layers.shapes import require_shape, size_of
from t2t_keras.layers.ssru import SSRU


@keras.saving.register_keras_serializable("t2t_keras")
class DecoderLayer(SublayeredLayer):
    """Decoder layer: masked self-attention, cross-attention, feed-forward network.

    With `decoder_autoregression="ssru"`, an `SSRU` takes the place of self-attention.

    Args: A `TransformerConfig`, or individual fields of one (see `Configured`).

    Call arguments:
        x: `[batch, target, d_model]` float.
        memory: `[batch, source, d_model]` float, the encoder's output. Ignored with a
            cache, which already contains its keys and values.
        self_attention_mask: `[batch, target, target]` or `[batch, heads, target,
            target]` bool, True = attend. Any axis may be 1. With a cache, the last
            axis has the size past + target. Ignored by an SSRU, in which a position
            always follows the previous one of its sequence or beam.
        cross_attention_mask: `[batch, target, source]` or `[batch, heads, target,
            source]` bool, True = attend. Any axis may be 1.
        cache: Cache for incremental decoding: the result of `empty_cache`, or `cache`
            of an earlier result.
        positions: See `SelfAttention`. Ignored by an SSRU.
        key_positions: See `SelfAttention`. Ignored by an SSRU.
        return_attention_scores: Whether to return the weights of both attentions too.
        training: Whether to apply dropout.

    Returns:
        `[batch, target, d_model]` in the compute dtype; with `return_attention_scores`
        or a cache, a `DecoderResult`.
    """

    self_attention: SelfAttention
    ssru: SSRU
    cross_attention: CrossAttention
    cross_attention_residual: Residual
    feed_forward: FeedForward
    feed_forward_residual: Residual

    @property
    def sublayer_names(self) -> tuple[str, ...]:
        """Names of the sub-layers, from the input on."""
        return self.config.decoder_autoregression, "cross_attention", "feed_forward"

    @property
    def autoregression(self) -> SelfAttention | SSRU:
        """The sub-layer that sees the previous target positions."""
        return getattr(self, self.config.decoder_autoregression)

    def empty_cache(self, memory: tf.Tensor, beams: int = 1) -> LayerCache:
        """Returns an empty cache for the first decoding step.

        Args:
            memory: `[batch, source, d_model]` float, the encoder's output.
            beams: Number of beams per row. Default 1.
        """
        return LayerCache(
            self.autoregression.empty_cache(tf.shape(memory)[0], beams),
            self.cross_attention.project_memory(memory),
        )

    def reorder(self, cache: LayerCache, parents: tf.Tensor) -> LayerCache:
        """Returns the cache of new beams; see `Decoder.reorder`."""
        past = self.autoregression.reorder(cache.autoregression, parents)
        return cache._replace(autoregression=past)

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
        past = None if cache is None else cache.autoregression
        scores = None
        residual = getattr(self, f"{self.config.decoder_autoregression}_residual")
        y = residual.sublayer_input(x)
        if self.config.decoder_autoregression == "ssru":
            y = self.ssru(y, cache=past, return_state=is_full)
            if is_full:
                y, past = y
        else:
            y = self.self_attention(
                y,
                attention_mask=self_attention_mask,
                cache=past,
                positions=positions,
                key_positions=key_positions,
                return_attention_scores=is_full,
                training=training,
            )
            if is_full:
                y, scores, past = y
        x = residual(x, y, training=training)

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
            DecoderScores(scores, crossed.scores),
            LayerCache(past, crossed.key_value),
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

    def empty_cache(self, memory: tf.Tensor, beams: int = 1) -> DecoderCache:
        """Returns an empty cache for the first decoding step.

        Args:
            memory: `[batch, source, d_model]` float, the encoder's output.
            beams: Number of beams per row. With more than one, each step decodes
                one token per beam. Default 1.
        """
        return DecoderCache(
            tf.zeros([tf.shape(memory)[0], 1, 0], tf.int32),
            [layer.empty_cache(memory, beams) for layer in self.layers],
        )

    def reorder(self, cache: DecoderCache, parents: tf.Tensor) -> DecoderCache:
        """Returns the cache of new beams, each of which continues a previous beam.

        The keys and values of self-attention stay where they are: the mask tells which
        of them belong to a beam. The states of SSRUs are gathered.

        Args:
            cache: The cache of the previous beams.
            parents: `[batch, beams]` integer, the beam that each new beam continues.
        """
        pairs = zip(self.layers, cache.layers, strict=True)
        layers = [layer.reorder(past, parents) for layer, past in pairs]
        return cache._replace(layers=layers)

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
