"""Export to CTranslate2, an inference engine in C++ for CPUs and GPUs.

The directory has the layout of CTranslate2's own converters, with the tokenizers'
SentencePiece models and a model card:

    model.bin, config.json                                   the model
    shared_vocabulary.json, or {source,target}_vocabulary.json
    source.spm, target.spm                                   SentencePiece models
    README.md                                                model card
"""

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.config import TransformerConfig
from t2t_keras.data.new_directory import new_directory
from t2t_keras.data.subwords import SentencePieceTokenizer
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.errors import UserError
from t2t_keras.interop.ctranslate2_card import model_card, translation_options
from t2t_keras.model_dir import ModelDir
from t2t_keras.optional_packages import require_extra
from t2t_keras.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from t2t_keras.training.weight_files import check_finite
from t2t_keras.transformer import Transformer

WEIGHTS_DTYPES = ("float32", "float16", "int16", "int8")
"""Storage formats of the weights. bfloat16 would need PyTorch."""

_ACTIVATIONS = {
    "relu": "RELU",
    "gelu": "GELU",
    "quick_gelu": "GELUSigmoid",
    "swish": "SWISH",
}
"""Names in CTranslate2 by value of `TransformerConfig.activation`."""

_IMPOSSIBLE = -1e4
"""Logit of tokens that are never produced. Representable in float16."""


def export_ctranslate2(
    model_dir: ModelDir,
    export_dir: str | Path,
    checkpoint: str = "auto",
    options: SearchOptions | None = None,
    weights_dtype: str = "float32",
    max_input_tokens: int = 1024,
) -> int:
    """Writes a model in CTranslate2's format, completely or not at all.

    Args:
        model_dir: The model directory.
        export_dir: The directory to write, new or empty.
        checkpoint: The weights, as for `ModelDir.weights_path`. Default "auto".
        options: Search options that the model card recommends. Default: those of the
            model directory.
        weights_dtype: Storage format of the weights, one of `WEIGHTS_DTYPES`. Default
            "float32".
        max_input_tokens: Maximum number of source tokens. CTranslate2 stores the
            positional encoding as a table; it gets a row for each position of the
            longest input, and of the longest output of the search options. Default
            1,024.

    Returns:
        The size of the model file in bytes.

    Raises:
        MissingExtra: If CTranslate2 is not installed.
        UserError: If CTranslate2 cannot represent the model, a weight is too large for
            float16, the directory is not empty, or as for `ModelDir.load`.
        FloatingPointError: If a weight is not finite.
    """
    require_extra("convert", "Export to CTranslate2", "ctranslate2")
    options = options or SearchOptions(**model_dir.search)
    _check_config(model_dir.transformer_config)
    tokenizers = _sentencepiece(model_dir.tokenizers)
    loaded = model_dir.load(checkpoint)
    check_finite(loaded.model.variables)
    # One more for the start or end token. CTranslate2 pads to multiples of 8 on GPUs.
    longest = max(max_input_tokens + 1, options.max_length(max_input_tokens + 1))
    positions = -(-longest // 8) * 8
    spec = transformer_spec(loaded.model, positions, weights_dtype)
    source, target = (side.pieces() for side in tokenizers)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token = target[UNK_ID]
    spec.config.bos_token = spec.config.decoder_start_token = target[BOS_ID]
    spec.config.eos_token = target[EOS_ID]
    spec.config.add_source_eos = True
    spec.config.add_attribute(
        "translation_options", translation_options(options, max_input_tokens)
    )
    taken = f"Another process is writing {export_dir}. Choose another --export_dir."
    with new_directory(export_dir, "model.bin", taken) as path:
        spec.validate()
        spec.optimize(weights_dtype)
        spec.save(str(path))
        for name, tokenizer in zip(("source", "target"), tokenizers, strict=True):
            (path / f"{name}.spm").write_bytes(tokenizer.model)
        card = model_card(model_dir, loaded, options, weights_dtype, max_input_tokens)
        (path / "README.md").write_text(card, encoding="utf-8")
        return (path / "model.bin").stat().st_size


def transformer_spec(
    model: Transformer, positions: int, weights_dtype: str = "float32"
) -> Any:
    """Returns CTranslate2's description of a model, with its weights.

    Args:
        model: The model.
        positions: Number of positions that the positional encoding gets.
        weights_dtype: Storage format that the weights must fit, one of
            `WEIGHTS_DTYPES`. Default "float32".

    Returns:
        A `ctranslate2.specs.TransformerSpec` without vocabularies.

    Raises:
        UserError: If CTranslate2 cannot represent the model, or a weight is too large.
    """
    from ctranslate2 import specs

    config = model.config
    _check_config(config)
    arrays = {v.path: np.array(v.value, np.float32) for v in model.trainable_variables}
    if weights_dtype == "float16":
        _check_float16(arrays)
    spec = specs.TransformerSpec.from_config(
        config.depths(),
        config.num_heads,
        pre_norm=config.pre_norm,
        activation=specs.Activation[_ACTIVATIONS[config.activation]],
    )
    spec.config.layer_norm_epsilon = config.norm_epsilon
    writer = _LayerWriter(config, arrays)
    for name, side in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        for i, layer in enumerate(side.layer):
            writer.write_layer(layer, f"transformer/{name}/layer_{i}")
        if config.pre_norm:
            writer.write_norm(side.layer_norm, f"transformer/{name}/final_norm")
    encodings = [
        np.array(position.encoding(tf.range(positions)), np.float32)
        for position in (model.source_position, model.target_position)
    ]
    spec.encoder.position_encodings.encodings = encodings[0]
    spec.decoder.position_encodings.encodings = encodings[1]
    target = arrays[model.target_embedding.embeddings.path]
    spec.encoder.embeddings[0].weight = arrays[model.source_embedding.embeddings.path]
    spec.decoder.embeddings.weight = target
    output = "transformer/output_projection"
    spec.decoder.projection.weight = arrays.get(f"{output}/kernel", target)
    bias = arrays.get(f"{output}/bias", np.zeros(len(target), np.float32))
    # Padding and start token do not count in our probabilities.
    bias[[PAD_ID, BOS_ID]] = _IMPOSSIBLE
    spec.decoder.projection.bias = bias
    return spec


class _LayerWriter:
    """Writes weights into the layers of a specification.

    Kernels are stored as in CTranslate2: one row per output, and queries, keys and
    values in this order where they are projected together.

    Args:
        config: The configuration.
        arrays: The weights by variable path.
    """

    def __init__(
        self, config: TransformerConfig, arrays: dict[str, np.ndarray]
    ) -> None:
        self._arrays = arrays
        depth = config.d_k or config.d_model // config.num_heads
        self._queries_scale = np.float32(depth**-0.5)

    def write_layer(self, layer: Any, path: str) -> None:
        """Writes an encoder layer or a decoder layer."""
        names = ["query_key_value", "output_projection"]
        self._write_attention(layer.self_attention, f"{path}/self_attention", names)
        if hasattr(layer, "attention"):
            names = ["query", "key_value", "output_projection"]
            self._write_attention(layer.attention, f"{path}/cross_attention", names)
        self._write_linear(layer.ffn.linear_0, f"{path}/feed_forward/inner")
        self._write_linear(layer.ffn.linear_1, f"{path}/feed_forward/outer")
        self.write_norm(layer.ffn.layer_norm, f"{path}/feed_forward_residual/norm")

    def _write_attention(self, attention: Any, path: str, names: list[str]) -> None:
        # CTranslate2 derives the scale from d_model unless it is given.
        attention.queries_scale = self._queries_scale
        for linear, name in zip(attention.linear, names, strict=True):
            self._write_linear(linear, f"{path}/{name}")
        self.write_norm(attention.layer_norm, f"{path}_residual/norm")

    def _write_linear(self, linear: Any, path: str) -> None:
        linear.weight = self._arrays[f"{path}/kernel"]
        if f"{path}/bias" in self._arrays:
            linear.bias = self._arrays[f"{path}/bias"]

    def write_norm(self, norm: Any, path: str) -> None:
        """Writes a layer normalization."""
        norm.gamma = self._arrays[f"{path}/gamma"]
        norm.beta = self._arrays[f"{path}/beta"]


def _check_config(config: TransformerConfig) -> None:
    """Rejects what CTranslate2's Transformer does not have.

    Raises:
        UserError: If a value cannot be represented.
    """
    depth = config.d_k or config.d_model // config.num_heads
    unsupported = {
        "decoder_autoregression": config.decoder_autoregression != "self_attention",
        "attention_window": config.attention_window is not None,
        # Queries, keys and values are split into equal parts.
        "d_v": (config.d_v or depth) != depth,
    }
    for name, is_unsupported in unsupported.items():
        if is_unsupported:
            also = f", d_k={depth}" if name == "d_v" else ""
            raise UserError(
                "CTranslate2 cannot represent a model with "
                f"{name}={getattr(config, name)}{also}."
            )


def _check_float16(arrays: dict[str, np.ndarray]) -> None:
    largest = float(np.finfo(np.float16).max)
    for path, array in arrays.items():
        if np.abs(array).max() > largest:
            raise UserError(f"{path} has values too large for float16; use float32.")


def _sentencepiece(
    tokenizers: TokenizerPair,
) -> tuple[SentencePieceTokenizer, SentencePieceTokenizer]:
    """Returns the source and target tokenizers if CTranslate2's users can run them."""
    source, target = tokenizers.source, tokenizers.target
    if not isinstance(source, SentencePieceTokenizer) or not isinstance(
        target, SentencePieceTokenizer
    ):
        raise UserError(
            "Export to CTranslate2 needs a SentencePiece vocabulary (--subword=bpe or "
            f"unigram), which is read outside TensorFlow. Received: {source.subword}"
        )
    return source, target
