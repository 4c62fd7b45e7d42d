"""Reads directories of Marian models in the format of Hugging Face (OPUS-MT).

A directory contains config.json, generation_config.json, model.safetensors or
pytorch_model.bin, source.spm, target.spm, vocab.json, target_vocab.json for separate
vocabularies, and tokenizer_config.json. `t2t-export` writes pre-norm models in the same
format, as Pegasus models.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t_keras.config import TransformerConfig
from t2t_keras.errors import UserError
from t2t_keras.interop import hf_generation
from t2t_keras.interop.hf_settings import ACTIVATIONS, CONFIG, read_settings
from t2t_keras.interop.hf_vocabularies import (
    Vocabularies,
    read_languages,
    read_vocabularies,
)
from t2t_keras.interop.hf_weights import read_weights
from t2t_keras.interop.imported_model import ImportedModel, Origin, check_size
from t2t_keras.interop.tensors import Tensors
from t2t_keras.json_file import read_object

_SHARED = "transformer/embedding"
_OUTPUT = "transformer/output_projection"
_MAX_BIAS = 100
"""Larger biases of the logits of padding and start are masks."""

_NORM = {"gamma": "weight", "beta": "bias"}
"""The weights of a layer normalization."""


def matches(path: Path) -> bool:
    """Returns whether a path looks like the directory of a Hugging Face model."""
    return (path / CONFIG).is_file()


def read(path: Path) -> ImportedModel:
    """Reads a model directory.

    Args:
        path: The directory.

    Raises:
        UserError: If a file is missing or damaged, or a value of the configuration
            cannot be represented.
    """
    settings = read_settings(path)
    generation_path = path / "generation_config.json"
    if generation_path.is_file():
        generation = read_object(generation_path)
    else:  # Older versions kept these settings in config.json.
        generation_path = path / CONFIG
        generation = {n: v for n, v in settings.items() if n in hf_generation.NAMES}
    tensors = Tensors(path, read_weights(path))
    config = _config(path, settings, tensors.size)
    ids = {**settings, **{n: v for n, v in generation.items() if v is not None}}
    vocabularies = read_vocabularies(path, config.vocab_sizes(), ids)
    arrays = _embeddings(config, settings, vocabularies, tensors)
    for side, depth in zip(("encoder", "decoder"), config.depths(), strict=True):
        for layer in range(depth):
            block = _layer(f"model.{side}.layers.{layer}", config, tensors, side)
            prefix = f"transformer/{side}/layer_{layer}"
            arrays |= {f"{prefix}/{name}": array for name, array in block.items()}
        if config.pre_norm:
            for name, part in _NORM.items():
                arrays[f"transformer/{side}/final_norm/{name}"] = tensors.take(
                    f"model.{side}.layer_norm.{part}", config.d_model
                )
    # Sinusoids are computed here. A shared matrix may be stored beside its copies.
    tensors.check_all_taken(but=("embed_positions.weight", "model.shared.weight"))
    sizes = vocabularies.sizes()
    return ImportedModel(
        config.replace(
            source_vocab_size=sizes[0],
            target_vocab_size=sizes[1],
            share_embeddings=f"{_SHARED}/embeddings" in arrays,
            tie_output=f"{_OUTPUT}/kernel" not in arrays,
            logits_bias=f"{_OUTPUT}/bias" in arrays,
        ),
        arrays,
        vocabularies.tokenizers(path),
        hf_generation.search_options(
            generation, vocabularies.special, str(generation_path)
        ),
        Origin("hf_marian", path.resolve().name, *read_languages(path)),
    )


def _config(path: Path, settings: Mapping[str, Any], size: int) -> TransformerConfig:
    """Returns the configuration, with Hugging Face's vocabulary sizes.

    Args:
        path: The model directory.
        settings: Content of config.json.
        size: Number of weights in the files.

    Raises:
        UserError: If a value is not valid, or the files are too small for it.
    """
    sizes = [settings["vocab_size"]] * 2
    if not settings["share_encoder_decoder_embeddings"]:
        sizes[1] = settings.get("decoder_vocab_size", sizes[0])
    try:
        config = TransformerConfig(
            source_vocab_size=sizes[0],
            target_vocab_size=sizes[1],
            share_embeddings=settings["share_encoder_decoder_embeddings"],
            num_layers=settings["encoder_layers"],
            num_decoder_layers=settings["decoder_layers"],
            d_model=settings["d_model"],
            d_ff=settings["encoder_ffn_dim"],
            num_heads=settings["encoder_attention_heads"],
            dropout=settings["dropout"],
            attention_dropout=settings["attention_dropout"],
            relu_dropout=settings["activation_dropout"],
            activation=ACTIVATIONS[settings["activation_function"]],
            attention_bias=True,
            position="sinusoidal_concat",
            pre_norm=settings["model_type"] == "pegasus",
            norm_epsilon=1e-5,
        )
    except UserError as error:
        raise UserError(f"{path / CONFIG}: {error}") from error
    check_size(config, size, path)
    return config


def _embeddings(
    config: TransformerConfig,
    settings: Mapping[str, Any],
    vocabularies: Vocabularies,
    tensors: Tensors,
) -> dict[str, np.ndarray]:
    """Returns the embeddings, the output matrix and the bias of the logits.

    The values of the matrices decide which of them are shared: files may contain each
    of them several times.
    """
    d_model = config.d_model
    source, target = vocabularies.source, vocabularies.target
    matrices = []
    for side, size in zip(("encoder", "decoder"), config.vocab_sizes(), strict=True):
        name = f"model.{side}.embed_tokens.weight"
        name = name if name in tensors else "model.shared.weight"
        matrices.append(tensors.take(name, size, d_model))
    encoder, decoder = matrices
    output = decoder
    if "lm_head.weight" in tensors:
        output = tensors.take("lm_head.weight", *decoder.shape)
    # This project scales embeddings by sqrt(d_model), but not the output matrix.
    scale = 1.0 if settings["scale_embedding"] else 1 / math.sqrt(d_model)
    arrays = {}
    if source is target and np.array_equal(encoder, decoder):
        arrays[f"{_SHARED}/embeddings"] = scale * target.rows(decoder)
    else:
        arrays["transformer/source_embedding/embeddings"] = scale * source.rows(encoder)
        arrays["transformer/target_embedding/embeddings"] = scale * target.rows(decoder)
    if scale != 1.0 or not np.array_equal(output, decoder):
        arrays[f"{_OUTPUT}/kernel"] = target.rows(output)
    if "final_logits_bias" in tensors:
        bias = tensors.take("final_logits_bias", 1, len(decoder))
        bias = target.rows(bias[0])
        # The logits of padding and start are never used, and may be -inf in the file.
        bias[:2] = np.where(np.abs(bias[:2]) < _MAX_BIAS, bias[:2], 0)
        if bias.any():
            arrays[f"{_OUTPUT}/bias"] = bias
    return arrays


def _layer(
    prefix: str, config: TransformerConfig, tensors: Tensors, side: str
) -> dict[str, np.ndarray]:
    """Returns the arrays of a layer by the end of the variable's path."""
    d_model, arrays = config.d_model, {}

    def linear(ours: str, theirs: Sequence[str], width: int, size: int) -> None:
        """Joins linear layers of the same input: `[width * n, size]`."""
        for name, part, shape in (
            ("kernel", "weight", (width, size)),
            ("bias", "bias", (width,)),
        ):
            arrays[f"{ours}/{name}"] = np.concatenate(
                [tensors.take(f"{prefix}.{each}.{part}", *shape) for each in theirs]
            )

    def norm(ours: str, theirs: str) -> None:
        for name, part in _NORM.items():
            arrays[f"{ours}_residual/norm/{name}"] = tensors.take(
                f"{prefix}.{theirs}.{part}", d_model
            )

    def projections(attention: str, *names: str) -> list[str]:
        return [f"{attention}.{name}_proj" for name in names]

    def square(ours: str, theirs: Sequence[str]) -> None:
        linear(ours, theirs, d_model, d_model)

    square("self_attention/query_key_value", projections("self_attn", "q", "k", "v"))
    square("self_attention/output_projection", projections("self_attn", "out"))
    norm("self_attention", "self_attn_layer_norm")
    if side == "decoder":
        square("cross_attention/query", projections("encoder_attn", "q"))
        square("cross_attention/key_value", projections("encoder_attn", "k", "v"))
        square("cross_attention/output_projection", projections("encoder_attn", "out"))
        norm("cross_attention", "encoder_attn_layer_norm")
    linear("feed_forward/inner", ["fc1"], config.d_ff, d_model)
    linear("feed_forward/outer", ["fc2"], d_model, config.d_ff)
    norm("feed_forward", "final_layer_norm")
    return arrays
