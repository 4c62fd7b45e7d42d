"""The encoder (section 3.1, left half of Figure 1)."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_keras.layers.feed_forward import FeedForward
from t2t_keras.layers.layer_stack import Stack, SublayeredLayer
from t2t_keras.layers.residual import Residual
from t2t_keras.layers.self_attention import SelfAttention
from t2t_keras.layers.shapes import require_shape


class EncoderResult(NamedTuple):
    """Output of an encoder or encoder layer with its attention weights.

    Attributes:
        output: `[batch, source, d_model]` in the compute dtype.
        scores: Attention weights `[batch, heads, source, source]` of a layer, or a
            list of them, one per layer, of an encoder.
    """

    output: tf.Tensor
    scores: Any


@keras.saving.register_keras_serializable("t2t_keras")
class EncoderLayer(SublayeredLayer):
    """Encoder layer: self-attention and feed-forward network with residuals.

    Args: A `TransformerConfig`, or individual fields of one (see `Configured`).

    Call arguments:
        x: `[batch, source, d_model]` float.
        attention_mask: `[batch, source, source]` or `[batch, heads, source, source]`
            bool, True = attend. Any axis may be 1.
        return_attention_scores: Whether to return the attention weights too.
        training: Whether to apply dropout.

    Returns:
        `[batch, source, d_model]` in the compute dtype; with
        `return_attention_scores`, an `EncoderResult`.
    """

    self_attention: SelfAttention
    self_attention_residual: Residual
    feed_forward: FeedForward
    feed_forward_residual: Residual

    @property
    def sublayer_names(self) -> tuple[str, ...]:
        """Names of the sub-layers, from the input on."""
        return "self_attention", "feed_forward"

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
        result = self.self_attention(
            residual.sublayer_input(x),
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        y = result.output if return_attention_scores else result
        x = residual(x, y, training=training)

        residual = self.feed_forward_residual
        y = self.feed_forward(residual.sublayer_input(x), training=training)
        x = residual(x, y, training=training)
        return EncoderResult(x, result.scores) if return_attention_scores else x


@keras.saving.register_keras_serializable("t2t_keras")
class Encoder(Stack):
    """Stack of encoder layers. With pre-norm, it ends with a layer normalization.

    Args: A `TransformerConfig`, or individual fields of one (see `Configured`).

    Call arguments and returns: The same as in `EncoderLayer`, but the attention weights
    are a list with one tensor per layer.
    """

    layer_class = EncoderLayer

    def call(
        self,
        x: tf.Tensor,
        attention_mask: tf.Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Applies the layers in order."""
        x = require_shape(x, (None, None, self.d_model), self, "x")
        scores = []
        for layer in self.layers:
            result = layer(
                x,
                attention_mask=attention_mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                scores.append(result.scores)
            x = result.output if return_attention_scores else result
        if self.final_norm:
            x = self.final_norm(x)
        return EncoderResult(x, scores) if return_attention_scores else x
