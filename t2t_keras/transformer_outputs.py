"""Outputs of the Transformer with attention weights or a cache."""

from typing import NamedTuple

import tensorflow as tf

from t2t_keras.layers.decoder_outputs import DecoderCache, DecoderScores


class TransformerResult(NamedTuple):
    """Output of the model with its attention weights.

    Attributes:
        logits: `[batch, target, target_vocab_size]` in the compute dtype.
        scores: Attention weights: lists with one `[batch, heads, query, key]` tensor
            per layer, under the keys "encoder", "decoder" and "cross". The list of
            "decoder" is empty for a decoder with SSRUs.
    """

    logits: tf.Tensor
    scores: dict[str, list[tf.Tensor]]


class DecodeResult(NamedTuple):
    """Output of `Transformer.decode` with attention weights and cache.

    Attributes:
        logits: `[batch, target, target_vocab_size]` in the compute dtype.
        scores: The attention weights of each layer.
        cache: The cache with the new positions appended.
    """

    logits: tf.Tensor
    scores: list[DecoderScores]
    cache: DecoderCache
