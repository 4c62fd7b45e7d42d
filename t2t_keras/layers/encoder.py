"""The encoder (section 3.1, left half of Figure 1)."""

from typing import Any

import keras
import tensorflow as tf

from t2t_keras.layers.attention import MultiHeadAttention
from t2t_keras.layers.residual import Residual
from t2t_keras.layers.shapes import require_shape
from t2t_keras.layers.stack import Stack, SublayeredLayer


@keras.saving.register_keras_serializable("t2t_keras")
class EncoderLayer(SublayeredLayer):
    """Self-attention, then a feed-forward network, each with its residual.

    Args: a `TransformerConfig`, or single fields of one (`Configured`).

    Call arguments:
        x: `[batch, source, d_model]` float.
        attention_mask: `[batch, source, source]` or `[batch, heads, source, source]`
            bool, True = attend. Any axis may be 1.
        return_attention_scores: Also return the attention weights.
        training: Whether to drop.

    Returns:
        `[batch, source, d_model]` in the compute dtype; with
        `return_attention_scores` also `[batch, heads, source, source]`.
    """

    attention_names = ("self_attention",)
    self_attention: MultiHeadAttention
    self_attention_residual: Residual
    feed_forward_residual: Residual

    def call(
        self,
        x: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Applies both sub-layers."""
        x = require_shape(x, (None, None, self.d_model), self, "x")
        residual = self.self_attention_residual
        y, scores = self.self_attention(
            residual.sublayer_input(x),
            attention_mask=attention_mask,
            return_attention_scores=True,
            training=training,
        )
        x = residual(x, y, training=training)
        residual = self.feed_forward_residual
        y = self.feed_forward(residual.sublayer_input(x), training=training)
        x = residual(x, y, training=training)
        return (x, scores) if return_attention_scores else x


@keras.saving.register_keras_serializable("t2t_keras")
class Encoder(Stack):
    """A stack of encoder layers; with pre-norm a normalization follows the last.

    Args: a `TransformerConfig`, or single fields of one (`Configured`).

    Call arguments and returns: as of `EncoderLayer`, but for the attention scores,
    which are a list of one tensor a layer.
    """

    layer_class = EncoderLayer

    def call(
        self,
        x: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Applies the layers in turn."""
        x = require_shape(x, (None, None, self.d_model), self, "x")
        scores = []
        for layer in self.layers:
            x, layer_scores = layer(
                x,
                attention_mask=attention_mask,
                return_attention_scores=True,
                training=training,
            )
            scores.append(layer_scores)
        if self.final_norm:
            x = self.final_norm(x)
        return (x, scores) if return_attention_scores else x
