"""Outputs and caches of the decoder and its layers."""

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.layers.attention import KeyValue


class LayerCache(NamedTuple):
    """Cache of a decoder layer for incremental decoding.

    Attributes:
        self_attention: Keys and values of all previous positions.
        memory: Keys and values of the encoder's output, constant in all steps.
    """

    self_attention: KeyValue
    memory: KeyValue


class DecoderCache(NamedTuple):
    """Cache of a decoder for incremental decoding.

    The first axis of every tensor is the batch.

    Attributes:
        positions: `[batch, 1, past]` int32, the positions of the cached keys in their
            sequences. In beam search, several keys share a position.
        layers: The caches of the layers.
    """

    positions: tf.Tensor
    layers: list[LayerCache]


class DecoderScores(NamedTuple):
    """The attention weights of a decoder layer.

    Attributes:
        self_attention: `[batch, heads, target, key]`.
        cross_attention: `[batch, heads, target, source]`.
    """

    self_attention: tf.Tensor
    cross_attention: tf.Tensor


class DecoderResult(NamedTuple):
    """Output of a decoder or decoder layer with its attention weights and cache.

    Attributes:
        output: `[batch, target, d_model]` in the compute dtype.
        scores: `DecoderScores` of a layer, or a list of them, one per layer, of a
            decoder.
        cache: The cache with the new positions appended: `LayerCache` of a layer,
            `DecoderCache` of a decoder.
    """

    output: tf.Tensor
    scores: Any
    cache: Any
