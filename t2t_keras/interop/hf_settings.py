"""Reads the configuration of a Hugging Face model and checks its values.

Marian models, and the Pegasus models that `t2t-export` makes of pre-norm models.
"""

from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.interop import hf_generation
from t2t_keras.interop.tensors import MAX_SIZE
from t2t_keras.json_file import read_object

CONFIG = "config.json"

ACTIVATIONS = {
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "quick_gelu": "quick_gelu",
}
"""Activations of this project by their names there."""

_REQUIRED: dict[str, tuple[Any, ...]] = {
    "model_type": ("marian", "pegasus"),
    "is_encoder_decoder": (True,),
    "is_decoder": (False,),
    "static_position_embeddings": (True,),
    "normalize_embedding": (False,),
    "do_blenderbot_90_layernorm": (False,),
    "force_bos_token_to_be_generated": (False,),
    "tie_encoder_decoder": (False,),
    "pruned_heads": ({},),
    "chunk_size_feed_forward": (0,),
}
"""The values of architecture switches that this project has layers for."""

_REQUIRED_OF_TYPE: dict[str, dict[str, tuple[Any, ...]]] = {
    model_type: {
        "architectures": ([name],),
        "normalize_before": (is_pre_norm,),
        "add_final_layer_norm": (is_pre_norm,),
    }
    for model_type, name, is_pre_norm in (
        ("marian", "MarianMTModel", False),
        ("pegasus", "PegasusForConditionalGeneration", True),
    )
}
"""Further values by model_type."""

_IRRELEVANT = {
    # Initialization, training, and heads for other tasks.
    *("init_std", "encoder_layerdrop", "decoder_layerdrop", "gradient_checkpointing"),
    *("classif_dropout", "classifier_dropout", "id2label", "label2id", "num_labels"),
    *("finetuning_task", "problem_type", "task_specific_params", "save_step"),
    # Storage, versions and origin.
    *("dtype", "torch_dtype", "transformers_version", "use_bfloat16", "torchscript"),
    *("tokenizer_class", "return_dict", "tf_legacy_loss", "prefix"),
    # Not used by Hugging Face's Marian either, or implied by other values.
    *("add_bias_logits", "extra_pos_embeddings", "add_cross_attention"),
    *("cross_attention_hidden_size", "num_hidden_layers", "sep_token_id"),
    # Sinusoids have no maximum length.
    "max_position_embeddings",
}
_SIZES = {
    *("vocab_size", "decoder_vocab_size", "d_model"),
    *("encoder_layers", "decoder_layers", "encoder_ffn_dim", "decoder_ffn_dim"),
    *("encoder_attention_heads", "decoder_attention_heads"),
}
_SWITCHES = {
    *("scale_embedding", "share_encoder_decoder_embeddings", "tie_word_embeddings"),
}
_DEFAULTS = {
    "activation_function": "gelu",
    "scale_embedding": False,
    "share_encoder_decoder_embeddings": True,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "eos_token_id": 0,
    "pad_token_id": 58100,
    "decoder_start_token_id": 58100,
}
"""Defaults of `MarianConfig`, for values that config.json may omit."""

_PEGASUS_DEFAULTS = {"eos_token_id": 1, "pad_token_id": 0, "decoder_start_token_id": 0}
"""The defaults of `PegasusConfig` that differ."""


def read_settings(path: Path) -> dict[str, Any]:
    """Returns the content of config.json with defaults, after checking its values."""
    origin = path / CONFIG
    found = read_object(origin)
    # Older versions wrote all values, with null for unused ones.
    found = {name: value for name, value in found.items() if value is not None}
    required = {**_REQUIRED, **_REQUIRED_OF_TYPE.get(str(found.get("model_type")), {})}
    for name, values in required.items():
        if found.get(name, values[0]) not in values or (
            name == "model_type" and name not in found
        ):
            raise UserError(
                f"{origin}: {name}={found.get(name)!r} is not supported. It must be "
                f"{' or '.join(map(repr, values))}."
            )
    known = {*required, *_IRRELEVANT, *_SIZES, *_SWITCHES, *_DEFAULTS}
    known |= hf_generation.NAMES
    for name, value in found.items():
        if name not in known and not name.startswith("_"):
            raise UserError(f"{origin}: {name}={value!r} is not supported.")
    missing = _SIZES - {"decoder_vocab_size"} - found.keys()
    if missing:
        raise UserError(f"{origin} is damaged: it lacks {', '.join(sorted(missing))}.")
    for names, kind in ((_SIZES, int), (_SWITCHES, bool)):
        for name in sorted(names & found.keys()):
            value = found[name]
            if type(value) is not kind or (kind is int and not 1 <= value <= MAX_SIZE):
                expected = "a positive integer" if kind is int else "true or false"
                raise UserError(
                    f"{origin}: {name} must be {expected}. Received: {value!r:.40}"
                )
    for name in ("ffn_dim", "attention_heads"):
        encoder, decoder = found[f"encoder_{name}"], found[f"decoder_{name}"]
        if encoder != decoder:
            raise UserError(
                f"{origin}: decoder_{name}={decoder!r} is not supported. It must equal "
                f"encoder_{name}={encoder!r}."
            )
    activation = found.get("activation_function", "gelu")
    if activation not in [*ACTIVATIONS]:
        raise UserError(
            f"{origin}: activation_function={activation!r} is not supported. It must "
            f"be one of {', '.join(ACTIVATIONS)}."
        )
    is_pegasus = found["model_type"] == "pegasus"
    return {**_DEFAULTS, **(_PEGASUS_DEFAULTS if is_pegasus else {}), **found}
