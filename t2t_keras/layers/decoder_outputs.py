"""Outputs and caches of the decoder and its layers."""

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.layers.attention import KeyValue


class LayerCache(NamedTuple):
    """Cache of a decoder layer for incremental decoding.

    Attributes:
        autoregression: What the layer keeps of all previous positions: their keys and
            values, or the state of an `SSRU`.
        memory: Keys and values of the encoder's output, constant in all steps.
    """

    autoregression: KeyValue | tf.Tensor
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
        self_attention: `[batch, heads, target, key]`. None with an `SSRU`.
        cross_attention: `[batch, heads, target, source]`.
    """

    self_attention: tf.Tensor | None
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
