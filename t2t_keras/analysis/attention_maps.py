"""Attention weights of every head for a sentence and its translation."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.errors import UserError
from t2t_keras.layers.attention import Attention
from t2t_keras.special_tokens import BOS_ID, EOS_ID
from t2t_keras.transformer import Transformer

KINDS = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Encoder-decoder attention",
}
"""Titles of the three uses of attention (section 3.2.3)."""
MAX_TOKENS = 128
"""Maximum number of tokens on either side. Longer sentences cannot be drawn."""


class AttentionMap(NamedTuple):
    """Attention of one layer for one sentence. All arrays are float32.

    Attributes:
        kind: A key of `KINDS`.
        layer: Index of the layer, from 0.
        query_tokens: Tokens that attend. In the decoder they start with the start
            token.
        key_tokens: Tokens that are attended to.
        query: `[heads, query, d_k]`.
        key: `[heads, key, d_k]`.
        value: `[heads, key, d_v]`.
        weights: `[heads, query, key]`.
    """

    kind: str
    layer: int
    query_tokens: list[str]
    key_tokens: list[str]
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    weights: np.ndarray


def attention_maps(
    model: Transformer, tokenizers: TokenizerPair, source: str, target: str
) -> list[AttentionMap]:
    """Runs a model on a sentence pair and records its attention.

    Args:
        model: The model.
        tokenizers: The tokenizers of the model.
        source: The sentence.
        target: Its translation.

    Returns:
        One map per layer, ordered by kind as in `KINDS`, then by layer. A decoder with
        SSRUs has no map of kind "decoder".

    Raises:
        UserError: If a side has no tokens or more than `MAX_TOKENS`.
        FloatingPointError: If the model computes non-finite numbers.
    """
    source_ids = [*_ids(tokenizers.source, source, "The sentence"), EOS_ID]
    target_ids = [BOS_ID, *_ids(tokenizers.target, target, "The translation")]
    source_pieces, target_pieces = (
        tokenizers.source.pieces(),
        tokenizers.target.pieces(),
    )
    source_tokens = [source_pieces[i] for i in source_ids]
    target_tokens = [target_pieces[i] for i in target_ids]
    attentions = {
        "encoder": [layer.self_attention for layer in model.encoder.layers],
        "decoder": [
            layer.autoregression
            for layer in model.decoder.layers
            if isinstance(layer.autoregression, Attention)
        ],
        "cross": [layer.cross_attention for layer in model.decoder.layers],
    }
    tokens = {
        "encoder": (source_tokens, source_tokens),
        "decoder": (target_tokens, target_tokens),
        "cross": (target_tokens, source_tokens),
    }
    all_layers = [attention for kind in KINDS for attention in attentions[kind]]
    with _recorded(all_layers) as seen:
        logits = model(
            {"source": tf.constant([source_ids]), "target": tf.constant([target_ids])}
        )
    arrays = [tf.cast(logits, tf.float32), *itertools.chain(*seen.values())]
    if not all(np.isfinite(array).all() for array in arrays):
        raise FloatingPointError(
            "The model is broken: it computes NaN or infinite numbers."
        )
    return [
        AttentionMap(kind, number, *tokens[kind], *seen[id(attention)])
        for kind in KINDS
        for number, attention in enumerate(attentions[kind])
    ]


def _ids(tokenizer: Tokenizer, text: str, name: str) -> list[int]:
    ids = tokenizer.tokenize(tf.constant([text])).to_list()[0]
    if not 0 < len(ids) <= MAX_TOKENS:
        raise UserError(
            f"{name} must have 1 to {MAX_TOKENS} tokens to be drawn. Received: "
            f"{len(ids)} in {text[:80]!r}"
        )
    return ids


@contextlib.contextmanager
def _recorded(
    layers: Sequence[Attention],
) -> Iterator[dict[int, list[np.ndarray]]]:
    """Records queries, keys, values and weights of layers, keyed by `id(layer)`."""
    seen: dict[int, list[np.ndarray]] = {}

    def record(layer: Attention) -> Callable[..., Any]:
        attend = layer.attend

        def recorded(*inputs: Any, **options: Any) -> Any:
            result: Any = attend(*inputs, **options | {"needs_weights": True})
            seen[id(layer)] = [
                tf.cast(x[0], tf.float32).numpy() for x in (*inputs[:3], result[1])
            ]
            return result

        return recorded

    for layer in layers:
        layer.attend = record(layer)  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        for layer in layers:
            del layer.attend  # Restores the method of the class.
