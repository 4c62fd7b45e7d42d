"""Cross-attention to a memory, such as the encoder's output (section 3.2.3)."""

from typing import Any

import keras
import tensorflow as tf

from t2t_keras.layers.attention import Attention, AttentionResult, KeyValue
from t2t_keras.layers.linear import Linear
from t2t_keras.layers.shapes import check_shape, require_shape, size_of


@keras.saving.register_keras_serializable("t2t_keras")
class CrossAttention(Attention):
    """Multi-head attention from a sequence to a memory (section 3.2.3).

    One kernel projects the queries; one fused kernel projects keys and values.

    Args:
        num_heads: Number of heads, h.
        d_model: Size of input, memory and output.
        d_k: Size of a head's queries and keys. Default d_model / num_heads.
        d_v: Size of a head's values. Default d_k.
        attention_dropout: Dropout rate of the attention weights. Default 0.
        attention_bias: Whether the projections have biases. Default False.
        seed: Random seed of initializers and dropout. Default 0.

    Call arguments:
        query: `[batch, query, d_model]` float.
        memory: `[batch, key, d_model]` float to attend to.
        attention_mask: Bool of shape `[batch, query, key]` or `[batch, heads, query,
            key]`, True = attend. Any axis may be 1. Default: attend to everything.
        projected_memory: Projected keys and values to use instead of `memory`: the
            result of `project_memory`, or `key_value` of an earlier result. They stay
            the same in all decoding steps.
        return_attention_scores: Whether to return the attention weights too.
        training: Whether to apply dropout.

    Returns:
        `[batch, query, d_model]` in the compute dtype; with `return_attention_scores`,
        an `AttentionResult`.

    Raises:
        UserError: If `num_heads` does not divide `d_model` and `d_k` is not given.
        ValueError: If both or neither of `memory` and `projected_memory` are given, or
            if a call argument has the wrong shape or the mask the wrong dtype.
    """

    query: Linear
    key_value: Linear

    def _input_projections(self) -> dict[str, int]:
        return {
            "query": self.num_heads * self.d_k,
            "key_value": self.num_heads * (self.d_k + self.d_v),
        }

    def build(self, query_shape: Any = None, memory_shape: Any = None) -> None:
        """Creates all weights. Their sizes do not depend on the input."""
        shape = (None, None, self.d_model)
        check_shape(query_shape or shape, shape, self, "query")
        check_shape(memory_shape or shape, shape, self, "memory")
        self._build()

    def project_memory(self, memory: tf.Tensor) -> KeyValue:
        """Projects a memory to keys and values, to reuse them in several calls.

        Args:
            memory: `[batch, key, d_model]` float.

        Returns:
            Keys `[batch, heads, key, d_k]` and values `[batch, heads, key, d_v]`.
        """
        memory = require_shape(memory, (None, None, self.d_model), self, "memory")
        sizes = [self.num_heads * self.d_k, self.num_heads * self.d_v]
        key, value = tf.split(self.key_value(memory), sizes, axis=-1)
        return KeyValue(
            self._split_heads(key, self.d_k), self._split_heads(value, self.d_v)
        )

    def call(
        self,
        query: tf.Tensor,
        memory: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
        projected_memory: KeyValue | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Computes attention from each query position to the unmasked memory."""
        if (memory is None) == (projected_memory is None):
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: exactly one of memory and "
                "projected_memory must be given. Received: "
                f"{'neither' if memory is None else 'both'}. To attend from a sequence "
                "to itself, use SelfAttention."
            )
        query = require_shape(query, (None, None, self.d_model), self, "query")
        mask = self._checked_mask(attention_mask)
        query_heads = self._split_heads(self.query(query), self.d_k)
        if projected_memory is None:
            memory = require_shape(
                memory, (size_of(query, 0), None, self.d_model), self, "memory"
            )
            key, value = self.project_memory(memory)
        else:
            key, value = projected_memory
            shape = (query.shape[0], self.num_heads, None, self.d_k)
            check_shape(key.shape, shape, self, "projected_memory.key")
        context, weights = self.attend(
            query_heads,
            key,
            value,
            mask,
            needs_weights=return_attention_scores,
            training=training,
        )
        output = self._output(context, query)
        if not return_attention_scores:
            return output
        return AttentionResult(output, weights, KeyValue(key, value))
