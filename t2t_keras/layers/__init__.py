"""The building blocks of the Transformer as Keras layers, each usable on its own."""

from t2t_keras.keras_backend import require_tensorflow

require_tensorflow()

from t2t_keras.layers.cross_attention import CrossAttention
from t2t_keras.layers.decoder import Decoder, DecoderLayer
from t2t_keras.layers.dot_product import (
    scaled_dot_product_attention,
    windowed_attention,
)
from t2t_keras.layers.dropout import Dropout
from t2t_keras.layers.embedding import SharedEmbedding
from t2t_keras.layers.encoder import Encoder, EncoderLayer
from t2t_keras.layers.feed_forward import FeedForward
from t2t_keras.layers.layer_norm import LayerNorm
from t2t_keras.layers.linear import Linear
from t2t_keras.layers.masks import causal_mask, padding_mask, window_mask
from t2t_keras.layers.output_weights import OutputWeights
from t2t_keras.layers.positional_encoding import (
    ConcatenatedSinusoidalPosition,
    LearnedPosition,
    MarianSinusoidalPosition,
    SinusoidalPosition,
    sinusoidal_encoding,
)
from t2t_keras.layers.residual import Residual
from t2t_keras.layers.self_attention import MultiHeadAttention, SelfAttention
from t2t_keras.layers.ssru import SSRU

__all__ = [
    "SSRU",
    "ConcatenatedSinusoidalPosition",
    "CrossAttention",
    "Decoder",
    "DecoderLayer",
    "Dropout",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "LayerNorm",
    "LearnedPosition",
    "Linear",
    "MarianSinusoidalPosition",
    "MultiHeadAttention",
    "OutputWeights",
    "Residual",
    "SelfAttention",
    "SharedEmbedding",
    "SinusoidalPosition",
    "causal_mask",
    "padding_mask",
    "scaled_dot_product_attention",
    "sinusoidal_encoding",
    "window_mask",
    "windowed_attention",
]
