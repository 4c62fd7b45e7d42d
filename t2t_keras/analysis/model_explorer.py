"""An interactive page that explains the model step by step on a sentence."""

import base64
from collections.abc import Sequence
from importlib import resources
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.analysis.attention_maps import KINDS, AttentionMap
from t2t_keras.analysis.attention_plot import head_colours
from t2t_keras.config import TransformerConfig
from t2t_keras.layers.attention import Attention
from t2t_keras.layers.positional_encoding import SinusoidalPosition
from t2t_keras.transformer import Transformer
from t2t_keras.web_page import assemble

_POSITIONS = 64


def explorer_page(
    model: Transformer,
    maps: Sequence[AttentionMap],
    source: str,
    target: str,
    name: str,
) -> str:
    """Returns a self-contained HTML page, including scripts, style and data.

    Args:
        model: The model.
        maps: Attention of the model, as returned by `attention_maps`.
        source: The sentence.
        target: Its translation.
        name: Name of the model on the page.
    """
    data = {
        "model": name,
        "source": source,
        "translation": target,
        "colours": head_colours(maps[0].weights.shape[0]),
        "kinds": {
            kind: _kind(kind, maps, model)
            for kind in KINDS
            if any(attention.kind == kind for attention in maps)
        },
        "position": _position(model, max(len(m.query_tokens) for m in maps)),
        "architecture": _architecture(model, maps),
    }
    return assemble(resources.files("t2t_keras.analysis") / "page", {"data": data})


def _numbers(values: np.ndarray) -> dict[str, Any]:
    text = base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()
    return {"shape": values.shape, "values": text}


def _kind(
    kind: str, maps: Sequence[AttentionMap], model: Transformer
) -> dict[str, Any]:
    window = None if kind == "cross" else model.config.attention_window
    layers = [attention for attention in maps if attention.kind == kind]
    return {
        "title": KINDS[kind],
        "queries": layers[0].query_tokens,
        "keys": layers[0].key_tokens,
        "hides_later": kind == "decoder",
        # Words on either side that a word sees; None: all of them.
        "reach": None if window is None else window // 2,
        "layers": [
            {
                "query": _numbers(attention.query),
                "key": _numbers(attention.key),
                "value": _numbers(attention.value),
            }
            for attention in layers
        ],
    }


def _position(model: Transformer, length: int) -> dict[str, Any]:
    layer = model.source_position
    encoding = layer.encoding(tf.range(max(length, _POSITIONS))).numpy()
    # The formula of each dimension; none of them if the encoding is learned.
    waves = layer.waves() if isinstance(layer, SinusoidalPosition) else None
    return {
        "waves": waves and [wave and wave._asdict() for wave in waves],
        **_numbers(encoding),
    }


def _architecture(model: Transformer, maps: Sequence[AttentionMap]) -> dict[str, Any]:
    """Returns the components of encoder and decoder, from the input up."""
    config = model.config
    d_model, pre_norm = config.d_model, config.pre_norm
    tokens = {m.kind: len(m.query_tokens) for m in maps}
    tokens["decoder"] = tokens["cross"]

    def side(
        name: str,
        stack: keras.layers.Layer,
        embedding: keras.layers.Layer,
        position: keras.layers.Layer,
    ) -> dict[str, Any]:
        length = tokens[name]
        shape = f"[1, {length}, {d_model}]"
        layer = stack.layers[0]
        parts = [
            _part("embedding", f"Embedding * \u221a{d_model}", shape, embedding),
            _part("position", f"+ positions, {config.position}", shape, position),
        ]
        for attribute in layer.sublayer_names:
            sublayer = getattr(layer, attribute)
            if not isinstance(sublayer, Attention):
                titles = {
                    "feed_forward": f"Feed forward, {config.d_ff:,} inside",
                    "ssru": "Recurrent unit (SSRU)",
                }
                part = _part(attribute, titles[attribute], shape, sublayer)
            else:
                kind = "cross" if attribute == "cross_attention" else name
                weights = next(m.weights for m in maps if m.kind == kind)
                heads = "{} heads of [{}, {}]".format(*weights.shape)
                hides = (
                    "Masked self-attention" if name == "decoder" else "Self-attention"
                )
                title = "Attention to the source" if kind == "cross" else hides
                part = _part(
                    "cross" if kind == "cross" else attribute,
                    title,
                    f"{heads}, {shape}",
                    sublayer,
                )
            residual = getattr(layer, f"{attribute}_residual")
            norm = _part(
                f"{attribute}_norm",
                "Norm" if pre_norm else "Add & norm",
                shape,
                residual,
            )
            if pre_norm:
                adding = _part(f"{attribute}_add", "Add", shape, None)
                group = [norm, part, adding]
            else:
                group = [part, norm]
            group[0]["begins"] = True
            group[-1]["adds"] = True
            parts += [{**member, "stacked": True} for member in group]
        if stack.final_norm:
            parts.append(_part("final_norm", "Norm", shape, stack.final_norm))
        return {"layers": len(stack.layers), "parts": parts}

    encoder = side(
        "encoder", model.encoder, model.source_embedding, model.source_position
    )
    decoder = side(
        "decoder", model.decoder, model.target_embedding, model.target_position
    )
    vocabulary = f"[1, {tokens['decoder']}, {config.vocab_sizes()[1]:,}]"
    decoder["parts"] += [
        _part("logits", _logits(config), vocabulary, model.output_weights),
        _part("softmax", "Softmax: the next word", vocabulary, None),
    ]
    encoder["input"] = f"source tokens [1, {tokens['encoder']}]"
    decoder["input"] = f"start and translation [1, {tokens['decoder']}]"
    total = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
    sharing = ["Source"] if config.share_embeddings else []
    sharing += ["target", "logits"] if config.tie_output else ["target"]
    shared = ""
    if len(sharing) > 1:
        *first, last = sharing
        shared = f"{', '.join(first)} and {last} share one embedding. ".capitalize()
    return {
        "encoder": encoder,
        "decoder": decoder,
        "memory": f"[1, {tokens['encoder']}, {d_model}]",
        "note": f"{total:,} parameters in total. Each box shows those of one layer. "
        f"{shared}Each head has d_k = {maps[0].query.shape[-1]} and d_v = "
        f"{maps[0].value.shape[-1]}.",
    }


def _logits(config: TransformerConfig) -> str:
    """Describes the projection to logits."""
    matrix = "the embedding, transposed" if config.tie_output else "its own matrix"
    return f"Linear: {matrix}{', and a bias' if config.logits_bias else ''}"


def _part(
    name: str, title: str, shape: str, layer: keras.layers.Layer | None
) -> dict[str, Any]:
    variables = layer.trainable_variables if layer else []
    return {
        "id": name,
        "name": title,
        "shape": shape,
        "parameters": sum(int(np.prod(v.shape)) for v in variables),
    }
