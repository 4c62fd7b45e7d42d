"""Base class of self-attention and cross-attention (section 3.2)."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.layers.dot_product import scaled_dot_product_attention
from t2t_keras.layers.dropout import Dropout
from t2t_keras.layers.linear import Linear
from t2t_keras.layers.masks import fit_mask
from t2t_keras.layers.seeds import child_seed
from t2t_keras.layers.shapes import check_shape, reshape_last
from t2t_keras.layers.symbolic_calls import TracedOutputs


class KeyValue(NamedTuple):
    """Projected keys and values.

    Attributes:
        key: `[batch, heads, key, d_k]`.
        value: `[batch, heads, key, d_v]`.
    """

    key: tf.Tensor
    value: tf.Tensor


class AttentionResult(NamedTuple):
    """Output of an attention layer with its attention weights, keys and values.

    Attributes:
        output: `[batch, query, d_model]` in the compute dtype.
        scores: `[batch, heads, query, key]`, the attention weights before dropout.
        key_value: The projected keys and values.
    """

    output: tf.Tensor
    scores: tf.Tensor
    key_value: KeyValue


class Attention(TracedOutputs, keras.layers.Layer, ABC):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (section 3.2.2).

    Base class of `SelfAttention` and `CrossAttention`. The subclasses define how
    queries, keys and values are projected, in `_input_projections` and `call`; this
    class creates all weights and computes everything after the input projections.

    Args:
        num_heads: Number of heads, h.
        d_model: Size of input and output.
        d_k: Size of a head's queries and keys. Default d_model / num_heads.
        d_v: Size of a head's values. Default d_k.
        attention_dropout: Dropout rate of the attention weights. Default 0.
        attention_bias: Whether the projections have biases. Default False, as in
            the paper's own code.
        seed: Random seed of initializers and dropout. Default 0.

    Raises:
        UserError: If `num_heads` does not divide `d_model` and `d_k` is not given.
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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if d_k is None and d_model % num_heads:
            raise UserError(
                "d_model must be a multiple of num_heads unless d_k is given. "
                f"Received: d_model={d_model}, num_heads={num_heads}"
            )
        self.num_heads = num_heads
        self.d_model = d_model
        self.d_k = d_k or d_model // num_heads
        self.d_v = d_v or self.d_k
        self.attention_dropout = attention_dropout
        self.attention_bias = attention_bias
        self.seed = seed
        self.dropout = Dropout(
            attention_dropout, seed, dtype=self.dtype_policy, name="dropout"
        )
        self.output_projection = self._projection(d_model, "output_projection")
        for name, units in self._input_projections().items():
            setattr(self, name, self._projection(units, name))

    @abstractmethod
    def _input_projections(self) -> dict[str, int]:
        """Returns the output size of each input projection, by attribute name."""

    def _projection(self, units: int, name: str) -> Linear:
        return Linear(
            units,
            self.attention_bias,
            child_seed(self.seed, name),
            dtype=self.dtype_policy,
            name=name,
        )

    def _build(self) -> None:
        for name in self._input_projections():
            getattr(self, name).build((None, None, self.d_model))
        self.output_projection.build((None, None, self.num_heads * self.d_v))
        self.dropout.build((None, None, None, None))
        self.built = True

    def _split_heads(self, x: tf.Tensor, depth: int) -> tf.Tensor:
        # [batch, length, heads * depth] -> [batch, length, heads, depth]
        x = reshape_last(x, x, 2, [self.num_heads, depth])
        # -> [batch, heads, length, depth]
        return tf.transpose(x, [0, 2, 1, 3])

    def _output(self, context: tf.Tensor, query: tf.Tensor) -> tf.Tensor:
        # [batch, heads, query, d_v] -> [batch, query, heads * d_v]
        context = tf.transpose(context, [0, 2, 1, 3])
        # Use the query's shape, since a mask could have broadcast the context.
        context = reshape_last(context, query, 2, [self.num_heads * self.d_v])
        return self.output_projection(context)

    def _checked_mask(self, mask: Any) -> tf.Tensor | None:
        if mask is None:
            return None
        mask = tf.convert_to_tensor(mask)
        # Rank 2 is ambiguous: [batch, key] or [query, key].
        if mask.shape.rank in (0, 1, 2):
            raise ValueError(
                f"{type(self).__name__} {self.name!r}: attention_mask must have shape "
                "[batch, query, key] or [batch, heads, query, key] (any axis may be "
                f"1). Received shape: {mask.shape}"
            )
        return mask

    def attend(
        self,
        query: tf.Tensor,
        key: tf.Tensor,
        value: tf.Tensor,
        mask: tf.Tensor | None,
        needs_weights: bool,
        training: bool | None,
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Computes attention on projected queries, keys and values.

        Args:
            query: `[batch, heads, query, d_k]`, projected.
            key: `[batch, heads, key, d_k]`, projected.
            value: `[batch, heads, key, d_v]`, projected.
            mask: See `attention_mask` in the call arguments.
            needs_weights: Whether to return the attention weights.
            training: Whether to apply dropout.

        Returns:
            The context `[batch, heads, query, d_v]` and the attention weights
            `[batch, heads, query, key]`, which may be None without `needs_weights`.
        """
        if mask is not None:
            mask = fit_mask(mask, [*query.shape[:3], key.shape[2]])
        return scaled_dot_product_attention(
            query, key, value, mask, self.dropout, training
        )

    def compute_output_shape(self, query_shape: Any) -> Any:
        """Returns the output shape, which equals the shape of the query."""
        check_shape(query_shape, (None, None, self.d_model), self, "query")
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
            "seed": self.seed,
        }
