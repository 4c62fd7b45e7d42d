"""Writes a model as a directory of Hugging Face's transformers.

Post-norm models become Marian models, and pre-norm models Pegasus models: the same
layers with the normalization at another place. Both have sinusoidal positions and scale
embeddings by sqrt(d_model).
"""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.config import TransformerConfig
from t2t_keras.data.new_directory import new_directory
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.errors import UserError
from t2t_keras.export.model_card import model_card
from t2t_keras.interop.hf_card import model_card_text
from t2t_keras.interop.hf_tensors import HuggingFaceTensors
from t2t_keras.interop.hf_tokenizer import (
    check_tokenizers,
    write_json,
    write_tokenizer,
)
from t2t_keras.interop.safetensors_file import write_safetensors
from t2t_keras.model_dir import ModelDir
from t2t_keras.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from t2t_keras.training.weight_files import check_finite

_CONFIG = "config.json"
_POSITIONS = ("sinusoidal", "sinusoidal_concat")
_NORM_EPSILON = 1e-5
_MAX_NORM_EPSILON = 1e-4
_MAX_LENGTH = 512
_TYPICAL_LENGTH = 25
_EARLY_STOPPING = {"never": "never", "heuristic": False, "first": True}


def check_representable(config: TransformerConfig, tokenizers: TokenizerPair) -> None:
    """Checks that transformers has the layers of a model.

    Raises:
        UserError: If it has not. The message names the value.
    """
    size = config.d_model // config.num_heads
    allowed: dict[str, tuple[Any, ...]] = {
        "decoder_autoregression": ("self_attention",),
        "position": _POSITIONS,
        "attention_window": (None,),
        "d_k": (None, size),
        "d_v": (None, size),
    }
    for name, values in allowed.items():
        value = getattr(config, name)
        if value not in values:
            raise UserError(
                "The Marian and Pegasus models of Hugging Face's transformers need "
                f"{name}={' or '.join(str(v) for v in dict.fromkeys(values))}. "
                f"Received: {name}={value}"
            )
    if config.d_model % config.num_heads:
        raise UserError(
            "The Marian and Pegasus models of Hugging Face's transformers need a "
            f"d_model that is a multiple of num_heads. Received: "
            f"d_model={config.d_model}, num_heads={config.num_heads}"
        )
    if config.norm_epsilon > _MAX_NORM_EPSILON:
        raise UserError(
            f"Hugging Face's transformers computes with norm_epsilon={_NORM_EPSILON}, "
            f"and the model is too far from it. Received: "
            f"norm_epsilon={config.norm_epsilon}"
        )
    check_tokenizers(tokenizers)


def export_hugging_face(
    model_dir: ModelDir,
    export_dir: str | Path,
    checkpoint: str = "auto",
    options: SearchOptions | None = None,
    weights_dtype: str = "float32",
    max_input_tokens: int = 1024,
) -> int:
    """Fills a directory with a model and its tokenizers, completely or not at all.

    Args:
        model_dir: The model directory.
        export_dir: The directory to write, new or empty.
        checkpoint: The weights, as for `ModelDir.weights_path`. Default "auto".
        options: Search options, for generation_config.json. Default: those of the
            directory.
        weights_dtype: Dtype of the stored weights: "float32", "bfloat16" or "float16".
            Default "float32".
        max_input_tokens: Maximum number of source tokens, end token excluded. Default
            1,024.

    Returns:
        Number of bytes of the weights.

    Raises:
        UserError: If the model cannot be represented, a weight is too large for the
            dtype, or the directory is not empty or not writable.
        FloatingPointError: If a weight is not finite.
    """
    config, tokenizers = model_dir.transformer_config, model_dir.tokenizers
    check_representable(config, tokenizers)
    options = options or SearchOptions(**model_dir.search)
    loaded = model_dir.load(checkpoint)
    check_finite(loaded.model.variables)
    serving = {**dataclasses.asdict(options), "weights_dtype": weights_dtype}
    card = model_card(model_dir, [loaded], serving)
    model_type, name = (
        ("pegasus", "PegasusForConditionalGeneration")
        if config.pre_norm
        else ("marian", "MarianMTModel")
    )
    # CTranslate2's converter removes the last token of a Marian model, and replaces its
    # start embedding by zeros. In the models of OPUS-MT, the last token is both padding
    # and start. It starts Pegasus models with the padding token.
    rows = max(config.vocab_sizes()) + (not config.pre_norm)
    start_id = BOS_ID if config.pre_norm else rows - 1
    is_tied = config.tie_output and (config.share_embeddings or not config.pre_norm)
    generation = generation_config(options, start_id)
    max_positions = max(max_input_tokens + 1, generation["max_length"])
    converted = HuggingFaceTensors(
        config, {v.path: v.numpy() for v in loaded.model.trainable_variables}
    )
    converted.add_embeddings(rows, is_tied)
    if config.pre_norm:
        converted.add_positions(max_positions)
    else:
        converted.add_start_position(max_positions)
    tensors = {
        key: _stored(key, tensor, weights_dtype)
        for key, tensor in converted.tensors.items()
    }
    settings = {
        "architectures": [name],
        "model_type": model_type,
        **_settings(config, max_positions),
        "vocab_size": rows,
        "pad_token_id": start_id,
        "decoder_start_token_id": start_id,
        "tie_word_embeddings": is_tied,
        "dtype": weights_dtype,
    }
    if not config.pre_norm:
        settings |= {
            "decoder_vocab_size": rows,
            "share_encoder_decoder_embeddings": config.share_embeddings,
        }
    languages = card["data"]["source_lang"], card["data"]["target_lang"]
    taken = (
        f"Another process is writing {export_dir}. Wait for it, or choose another "
        "--export_dir."
    )
    with new_directory(export_dir, _CONFIG, taken) as path:
        write_safetensors(path / "model.safetensors", tensors)
        write_tokenizer(
            path,
            tokenizers,
            languages,
            rows,
            start_id,
            max_input_tokens + 1,
        )
        write_json(path / "generation_config.json", generation)
        text = model_card_text(card, languages, model_type)
        (path / "README.md").write_text(text, encoding="utf-8")
        write_json(path / _CONFIG, settings)
    return sum(tensor.nbytes for tensor in tensors.values())


def _settings(config: TransformerConfig, max_positions: int) -> dict[str, Any]:
    """Returns the content of config.json that does not depend on the class."""
    layers = config.depths()
    sides = ("encoder", "decoder")
    per_side = {"ffn_dim": config.d_ff, "attention_heads": config.num_heads}
    return {
        "is_encoder_decoder": True,
        "d_model": config.d_model,
        **{f"{side}_layers": n for side, n in zip(sides, layers, strict=True)},
        "num_hidden_layers": layers[0],
        **{f"{s}_{name}": value for s in sides for name, value in per_side.items()},
        "activation_function": config.activation,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.relu_dropout,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "max_position_embeddings": max_positions,
        # Read by CTranslate2 and by older versions of transformers.
        "normalize_before": config.pre_norm,
        "normalize_embedding": False,
        "add_final_layer_norm": config.pre_norm,
        "bos_token_id": None,
        "eos_token_id": EOS_ID,
        "forced_eos_token_id": None,
        "use_cache": True,
    }


def generation_config(options: SearchOptions, start_id: int) -> dict[str, Any]:
    """Returns the content of generation_config.json.

    Hugging Face divides log-probabilities by length^length_penalty. Another penalty,
    such as that of Wu et al. (2016), is replaced by the power with the same slope at a
    length of 25 tokens. Its maximum length does not depend on the input: without
    `max_output_tokens`, it is 512 tokens.

    Args:
        options: The search options.
        start_id: Id of the token that decoding starts with, also for padding.
    """
    slope = _TYPICAL_LENGTH / (_TYPICAL_LENGTH + options.length_penalty_beta)
    banned = [PAD_ID, BOS_ID, *([UNK_ID] if options.disable_unk else [])]
    settings: dict[str, Any] = {
        "pad_token_id": start_id,
        "eos_token_id": EOS_ID,
        "decoder_start_token_id": start_id,
        "bad_words_ids": [[token] for token in banned],
        # Lengths count the start token.
        "max_length": 1 + (options.max_output_tokens or _MAX_LENGTH - 1),
    }
    if options.force_end:
        settings["forced_eos_token_id"] = EOS_ID
    if options.min_length:
        settings["min_length"] = 1 + options.min_length
    if options.no_repeat_ngram:
        settings["no_repeat_ngram_size"] = options.no_repeat_ngram
    if options.sample:
        return settings | {
            "do_sample": True,
            "num_beams": 1,
            "temperature": options.temperature,
            "top_k": options.top_k,
            "top_p": options.top_p,
        }
    return settings | {
        "num_beams": options.beam_size,
        "length_penalty": round(options.length_penalty * slope, 4),
        "early_stopping": _EARLY_STOPPING[options.early_stopping],
    }


def _stored(name: str, tensor: np.ndarray, dtype: str) -> np.ndarray:
    """Returns a tensor in the dtype of the file.

    Sinusoids stay exact: they take little space.
    """
    if name.endswith("embed_positions.weight"):
        return tensor
    with np.errstate(over="ignore"):
        found = tensor.astype(tf.as_dtype(dtype).as_numpy_dtype)
    if not np.isfinite(found.astype(np.float32)).all():
        raise UserError(f"{name} has values too large for {dtype}; use bfloat16.")
    return found
