"""Translates Hugging Face's generation settings into search options."""

from collections.abc import Mapping
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.interop.tensors import MAX_SIZE

_IRRELEVANT = {
    # Speed and memory.
    *("use_cache", "cache_implementation", "cache_config", "max_cache_len"),
    *("low_memory", "compile_config", "disable_compile", "prefill_chunk_size"),
    *("continuous_batching_config", "use_mtp"),
    # What a result contains besides the text.
    *("output_attentions", "output_hidden_states", "output_scores", "output_logits"),
    *("return_dict_in_generate", "_from_model_config", "transformers_version"),
    # Speculative decoding, which does not change the output.
    *("is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule"),
    *("assistant_confidence_threshold", "prompt_lookup_num_tokens"),
    *("max_matching_ngram_size", "assistant_early_exit", "assistant_lookbehind"),
    *("target_lookbehind", "assistant_ensemble_weight", "speculation_type"),
    # The reader of the model uses these.
    *("pad_token_id", "eos_token_id", "decoder_start_token_id", "bos_token_id"),
    # For models that compute non-finite numbers.
    "remove_invalid_values",
}
_NEUTRAL: dict[str, Any] = {
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "num_return_sequences": 1,
    "guidance_scale": 1.0,
    "renormalize_logits": False,
    "token_healing": False,
    "suppress_tokens": [],
    "begin_suppress_tokens": [],
    "forced_bos_token_id": None,
    "exponential_decay_length_penalty": None,
    "sequence_bias": None,
    "watermarking_config": None,
    "constraints": None,
    "force_words_ids": None,
    "stop_strings": None,
    "max_time": None,
    "penalty_alpha": None,
    "dola_layers": None,
}
"""Values without effect, of settings that have no counterpart here."""

_NEUTRAL_SAMPLING = {
    "typical_p": 1.0,
    "min_p": None,
    "top_h": None,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
}
_INTEGERS = (
    *("num_beams", "max_length", "max_new_tokens", "min_length", "min_new_tokens"),
    *("no_repeat_ngram_size", "top_k"),
)
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(_INTEGERS, (int,)),
    **dict.fromkeys(("length_penalty", "temperature", "top_p"), (int, float)),
    "do_sample": (bool,),
    "bad_words_ids": (list,),
    "early_stopping": (bool, str),
    "forced_eos_token_id": (int, list),
}
"""Types of the values of the settings that have a counterpart here."""

NAMES = frozenset({*_IRRELEVANT, *_NEUTRAL, *_NEUTRAL_SAMPLING, *_TYPES})
"""All settings that `search_options` knows."""

_EARLY_STOPPING = {"never": "never", False: "heuristic", True: "first"}


def search_options(
    settings: Mapping[str, Any], special: Mapping[str, int], origin: str
) -> dict[str, Any]:
    """Returns the search options that have the effect of generation settings.

    Missing settings, and null, have Hugging Face's defaults, except for the maximum
    length: its default of 20 tokens cuts most sentences, so this project's is used.

    Args:
        settings: Settings of `generation_config.json`.
        special: Ids of the tokens "pad", "start", "eos" and "unk".
        origin: Name of the file, for messages.

    Raises:
        UserError: If a setting is unknown, or has a value without a counterpart.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    do_sample = given.get("do_sample", False)
    neutral = {**_NEUTRAL, **(_NEUTRAL_SAMPLING if do_sample else {})}
    for name, value in given.items():
        if (
            name not in NAMES
            or type(value) not in _TYPES.get(name, (type(value),))
            or (name in neutral and value != neutral[name])
            or (isinstance(value, int | float) and not abs(value) <= MAX_SIZE)
        ):
            raise UserError(f"{origin}: {name}={value!r:.200} is not supported.")
    beams = given.get("num_beams", 1)
    options: dict[str, Any] = {
        "beam_size": beams,
        "length_penalty": float(given.get("length_penalty", 1.0)),
        # |Y|^length_penalty.
        "length_penalty_beta": 0.0,
        **_lengths(given),
        "no_repeat_ngram": given.get("no_repeat_ngram_size", 0),
        "force_end": "forced_eos_token_id" in given,
        "early_stopping": _early_stopping(given, origin),
        "disable_unk": _disables_unk(given, special, origin),
    }
    eos = special["eos"]
    if given.get("forced_eos_token_id", eos) not in (eos, [eos]):
        raise UserError(
            f"{origin}: forced_eos_token_id={given['forced_eos_token_id']!r} is not "
            f"supported: it must be the end token, {eos}."
        )
    if do_sample:
        if beams != 1:
            raise UserError(
                f"{origin}: do_sample=True with num_beams={beams} is not supported."
            )
        options |= {
            "sample": True,
            "temperature": float(given.get("temperature", 1.0)),
            "top_k": given.get("top_k", 50),
            "top_p": float(given.get("top_p", 1.0)),
        }
    return options


def _lengths(given: Mapping[str, Any]) -> dict[str, int]:
    """Returns the limits of the length."""
    # Lengths of Hugging Face count the start token, except max_new_tokens and
    # min_new_tokens, which take precedence. min_length counts the end token.
    most = given.get("max_new_tokens", given.get("max_length", 1) - 1)
    least = given.get("min_new_tokens", max(0, given.get("min_length", 0) - 1))
    limits = {"min_length": least}
    if "max_new_tokens" in given or "max_length" in given:
        limits |= {"max_output_tokens": most, "max_extra_length": most}
    return limits


def _early_stopping(given: Mapping[str, Any], origin: str) -> str:
    value = given.get("early_stopping", False)
    if value not in _EARLY_STOPPING:
        raise UserError(f"{origin}: early_stopping={value!r} is not supported.")
    return _EARLY_STOPPING[value]


def _disables_unk(
    given: Mapping[str, Any], special: Mapping[str, int], origin: str
) -> bool:
    """Returns whether the unknown token is among the tokens that are not produced."""
    banned = given.get("bad_words_ids", [])
    never = [[special["pad"]], [special["start"]]]
    for words in banned:
        if words not in [*never, [special["unk"]]]:
            raise UserError(
                f"{origin}: bad_words_ids={banned!r} is not supported: it may only "
                "contain the padding, start and unknown token."
            )
    return [special["unk"]] in banned
