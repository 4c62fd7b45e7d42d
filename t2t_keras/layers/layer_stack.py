"""Base classes of encoder and decoder layers and of their stacks."""

from abc import ABC, abstractmethod
from typing import Any

import keras

from t2t_keras.config.transformer_config import TransformerConfig
from t2t_keras.layers.config_layer import Configured
from t2t_keras.layers.cross_attention import CrossAttention
from t2t_keras.layers.feed_forward import FeedForward
from t2t_keras.layers.layer_norm import LayerNorm
from t2t_keras.layers.residual import Residual
from t2t_keras.layers.seeds import child_seed
from t2t_keras.layers.self_attention import SelfAttention
from t2t_keras.layers.shapes import check_shape
from t2t_keras.layers.ssru import SSRU
from t2t_keras.layers.symbolic_calls import TracedOutputs


class SublayeredLayer(Configured, TracedOutputs, keras.layers.Layer, ABC):
    """Base class of `EncoderLayer` and `DecoderLayer`.

    Each sub-layer is an attribute with its name, one of `sublayer_names`, and its
    residual connection is an attribute with the suffix `_residual`.

    Args: A `TransformerConfig`, or individual fields of one (see `Configured`).
    """

    @property
    @abstractmethod
    def sublayer_names(self) -> tuple[str, ...]:
        """Names of the sub-layers, from the input on."""

    def __init__(self, config: TransformerConfig | None = None, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        config = self.config
        self.d_model = config.d_model
        for name in self.sublayer_names:
            setattr(self, name, self._sublayer(name))
        for name in self.sublayer_names:
            residual = Residual(
                config.d_model,
                config.dropout,
                config.pre_norm,
                config.norm_epsilon,
                child_seed(config.seed, f"{name}_residual"),
                dtype=self.dtype_policy,
                name=f"{name}_residual",
            )
            setattr(self, f"{name}_residual", residual)

    def _sublayer(self, name: str) -> keras.layers.Layer:
        config = self.config
        arguments: dict[str, Any] = {
            "d_model": config.d_model,
            "seed": child_seed(config.seed, name),
            "dtype": self.dtype_policy,
            "name": name,
        }
        if name == "feed_forward":
            return FeedForward(
                d_ff=config.d_ff,
                relu_dropout=config.relu_dropout,
                activation=config.activation,
                **arguments,
            )
        if name == "ssru":
            return SSRU(**arguments)
        arguments |= {
            "num_heads": config.num_heads,
            "d_k": config.d_k,
            "d_v": config.d_v,
            "attention_dropout": config.attention_dropout,
            "attention_bias": config.attention_bias,
        }
        if name == "cross_attention":
            return CrossAttention(**arguments)
        return SelfAttention(attention_window=config.attention_window, **arguments)

    def build(self, x_shape: Any = None) -> None:
        """Creates all weights. Their sizes do not depend on the input."""
        shape = (None, None, self.d_model)
        check_shape(x_shape or shape, shape, self, "x")
        for name in self.sublayer_names:
            getattr(self, name).build(shape)
            getattr(self, f"{name}_residual").build(shape)
        self.built = True

    def compute_output_shape(self, x_shape: Any) -> Any:
        """Returns the output shape, which equals the shape of `x`."""
        check_shape(x_shape, (None, None, self.d_model), self, "x")
        return tuple(x_shape)


class Stack(Configured, TracedOutputs, keras.layers.Layer):
    """Base class of `Encoder` and `Decoder`: a stack of layers.

    With pre-norm, it ends with a layer normalization. A subclass sets the class of its
    layers in `layer_class`.

    Args: A `TransformerConfig`, or individual fields of one (see `Configured`).
    """

    layer_class: type[SublayeredLayer]

    def __init__(self, config: TransformerConfig | None = None, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        config = self.config
        self.d_model = config.d_model
        self.layers = [
            self.layer_class(
                config,
                seed=child_seed(config.seed, f"layer_{i}"),
                dtype=self.dtype_policy,
                name=f"layer_{i}",
            )
            for i in range(self._depth())
        ]
        self.final_norm = (
            LayerNorm(
                epsilon=config.norm_epsilon, dtype=self.dtype_policy, name="final_norm"
            )
            if config.pre_norm
            else None
        )

    def _depth(self) -> int:
        return self.config.depths()[0]

    def build(self, x_shape: Any = None) -> None:
        """Creates all weights. Their sizes do not depend on the input."""
        shape = (None, None, self.d_model)
        check_shape(x_shape or shape, shape, self, "x")
        for layer in self.layers:
            layer.build(shape)
        if self.final_norm:
            self.final_norm.build(shape)
        self.built = True

    def compute_output_shape(self, x_shape: Any) -> Any:
        """Returns the output shape, which equals the shape of `x`."""
        check_shape(x_shape, (None, None, self.d_model), self, "x")
        return tuple(x_shape)
