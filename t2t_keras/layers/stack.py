"""What the encoder's and the decoder's layers, and their stacks, have in common."""

from typing import Any

import keras

from t2t_keras.layers.attention import MultiHeadAttention
from t2t_keras.layers.feed_forward import FeedForward
from t2t_keras.layers.layer_norm import LayerNorm
from t2t_keras.layers.residual import Residual
from t2t_keras.layers.seeds import child_seed
from t2t_keras.layers.shapes import check_shape
from t2t_keras.layers.symbolic import TracedOutputs


class SublayeredLayer(TracedOutputs, keras.layers.Layer):
    """Base of `EncoderLayer` and `DecoderLayer`: attentions, then a feed-forward net.

    A subclass names its attentions in `attention_names`; for each name there is an
    attribute of that name and one with `_residual` after it.

    Args:
        d_model: Size of input and output.
        d_ff: Inner size of the feed-forward network.
        num_heads: Number of attention heads.
        d_k: Size of a head's queries and keys. Default d_model / num_heads.
        d_v: Size of a head's values. Default d_k.
        dropout: Share of each sub-layer's output dropped. Default 0.1.
        attention_dropout: Share of attention weights dropped. Default 0.
        relu_dropout: Share dropped after the ReLU. Default 0.
        attention_bias: Whether attention's projections have biases. Default False.
        pre_norm: Normalize before each sub-layer, not after. Default False.
        norm_epsilon: Epsilon of the normalizations. Default 1e-6.
        seed: Seed of initializers and dropout. Default 0.
    """

    attention_names: tuple[str, ...] = ()

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        num_heads: int,
        d_k: int | None = None,
        d_v: int | None = None,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        relu_dropout: float = 0.0,
        attention_bias: bool = False,
        pre_norm: bool = False,
        norm_epsilon: float = 1e-6,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._arguments = {
            "d_model": d_model,
            "d_ff": d_ff,
            "num_heads": num_heads,
            "d_k": d_k,
            "d_v": d_v,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "relu_dropout": relu_dropout,
            "attention_bias": attention_bias,
            "pre_norm": pre_norm,
            "norm_epsilon": norm_epsilon,
            "seed": seed,
        }
        self.d_model = d_model
        for name in self.attention_names:
            attention = MultiHeadAttention(
                num_heads,
                d_model,
                d_k,
                d_v,
                attention_dropout,
                attention_bias,
                child_seed(seed, name),
                dtype=self.dtype_policy,
                name=name,
            )
            setattr(self, name, attention)
        self.feed_forward = FeedForward(
            d_model,
            d_ff,
            relu_dropout,
            child_seed(seed, "feed_forward"),
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        for name in (*self.attention_names, "feed_forward"):
            residual = Residual(
                d_model,
                dropout,
                pre_norm,
                norm_epsilon,
                child_seed(seed, f"{name}_residual"),
                dtype=self.dtype_policy,
                name=f"{name}_residual",
            )
            setattr(self, f"{name}_residual", residual)

    def build(self, x_shape: Any = None) -> None:
        """Creates all weights; the sizes are known without any input."""
        shape = (None, None, self.d_model)
        check_shape(x_shape or shape, shape, self, "x")
        for name in self.attention_names:
            memory = () if name == "self_attention" else (shape,)
            getattr(self, name).build(shape, *memory)
            getattr(self, f"{name}_residual").build(shape)
        self.feed_forward.build(shape)
        self.feed_forward_residual.build(shape)
        self.built = True

    def compute_output_shape(self, x_shape: Any) -> Any:
        """Returns the shape of the output, which is that of `x`."""
        check_shape(x_shape, (None, None, self.d_model), self, "x")
        return tuple(x_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), **self._arguments}


class Stack(TracedOutputs, keras.layers.Layer):
    """Base of `Encoder` and `Decoder`: layers, with pre-norm a last normalization.

    A subclass names the class of its layers in `layer_class`.

    Args:
        num_layers: Number of layers, N.
        d_model: Size of input and output.
        pre_norm: Normalize before each sub-layer, not after. Default False.
        norm_epsilon: Epsilon of the normalizations. Default 1e-6.
        seed: Seed of initializers and dropout. Default 0.
        name: Keras's name of the stack.
        dtype: Keras's dtype or dtype policy.
        **kwargs: The other arguments of the layers.
    """

    layer_class: type[SublayeredLayer] = SublayeredLayer

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        pre_norm: bool = False,
        norm_epsilon: float = 1e-6,
        seed: int = 0,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, dtype=dtype, trainable=trainable)
        self._arguments = {
            "num_layers": num_layers,
            "d_model": d_model,
            "pre_norm": pre_norm,
            "norm_epsilon": norm_epsilon,
            "seed": seed,
            **kwargs,
        }
        self.d_model = d_model
        self.layers = [
            self.layer_class(
                d_model=d_model,
                pre_norm=pre_norm,
                norm_epsilon=norm_epsilon,
                seed=child_seed(seed, f"layer_{i}"),
                dtype=self.dtype_policy,
                name=f"layer_{i}",
                **kwargs,
            )
            for i in range(num_layers)
        ]
        self.final_norm = (
            LayerNorm(epsilon=norm_epsilon, dtype=self.dtype_policy, name="final_norm")
            if pre_norm
            else None
        )

    def build(self, x_shape: Any = None) -> None:
        """Creates all weights; the sizes are known without any input."""
        shape = (None, None, self.d_model)
        check_shape(x_shape or shape, shape, self, "x")
        for layer in self.layers:
            layer.build(shape)
        if self.final_norm:
            self.final_norm.build(shape)
        self.built = True

    def compute_output_shape(self, x_shape: Any) -> Any:
        """Returns the shape of the output, which is that of `x`."""
        check_shape(x_shape, (None, None, self.d_model), self, "x")
        return tuple(x_shape)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {**super().get_config(), **self._arguments}
