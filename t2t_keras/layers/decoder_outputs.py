"""What a decoder and its layers return and keep between steps."""

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_keras.layers.attention import KeyValue


class LayerCache(NamedTuple):
    """What a decoder layer keeps between steps.

    Attributes:
        self_attention: Keys and values of the positions so far.
        memory: Keys and values of the encoder's output, which do not change.
    """

    self_attention: KeyValue
    memory: KeyValue


class DecoderCache(NamedTuple):
    """What a decoder keeps between steps; the first axis of every tensor is the batch.

    Attributes:
        positions: `[batch, 1, past]` int32, the positions of the cached keys in their
            sequences. In a beam search, several keys have the same position.
        layers: The cache of each layer.
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
    """What a decoder, or a layer of it, returns if more than its output is asked for.

    Attributes:
        output: `[batch, target, d_model]` in the compute dtype.
        scores: `DecoderScores`; of a stack, a list of them, one a layer.
        cache: The cache with these positions appended: `LayerCache`; of a stack,
            `DecoderCache`.
    """

    output: tf.Tensor
    scores: Any
    cache: Any
