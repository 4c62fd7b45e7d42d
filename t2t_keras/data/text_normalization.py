"""Normalization of characters before tokenization.

The names are those of SentencePiece:

- "nfkc" is Unicode normalization form KC, which replaces characters by compatible
  ones: full-width punctuation and superscripts become ASCII.
- "nmt_nfkc" also replaces invisible characters, such as the zero-width space, by
  spaces.
- The suffix "_cf" adds case folding.
- "identity" leaves text unchanged.

With each of them, runs of white space and control characters become one space; see
`clean`.
"""

from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from t2t_keras.errors import UserError

DEFAULT_NORMALIZATION = "nmt_nfkc"
"""The default of SentencePiece."""

NORMALIZATIONS = (DEFAULT_NORMALIZATION, "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")

_UNSEEN = r"[\x{61c}\x{200b}\x{200c}\x{200e}\x{200f}\x{2581}\x{feff}\x{fffd}]"
"""Characters that the "nmt_" rules replace by a space, but `clean` and NFKC do not."""


def check_normalization(name: str) -> None:
    """Checks the name of a normalization.

    Raises:
        UserError: If it is not in `NORMALIZATIONS`.
    """
    if name not in NORMALIZATIONS:
        raise UserError(
            f"Normalization must be one of {', '.join(NORMALIZATIONS)}. Received: "
            f"{name!r}"
        )


def sentencepiece_normalizer(name: str) -> Any:
    """Returns a SentencePiece normalizer, which works outside the graph.

    Args:
        name: One of `NORMALIZATIONS`.
    """
    import sentencepiece

    sentencepiece.set_min_log_level(2)
    # SentencePiece logs a line whenever it loads a model without rules. The rule below
    # is for a character that SentencePiece models represent as a space anyway.
    is_identity = name == "identity"
    return sentencepiece.SentencePieceNormalizer(
        rule_name=None if is_identity else name,
        norm_map=[("\u2581", " ")] if is_identity else None,
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=True,
    )


def rules(name: str) -> bytes:
    """Returns the rules of a normalization in the format of SentencePiece models."""
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(sentencepiece_normalizer(name).serialized_model_proto())
    return model.normalizer_spec.precompiled_charsmap


def normalize(text: tf.Tensor, name: str) -> tf.Tensor:
    """Normalizes text in the graph, without SentencePiece.

    Args:
        text: `[...]` UTF-8 strings.
        name: One of `NORMALIZATIONS`.
    """
    if name == "identity":
        return text
    if name.startswith("nmt_"):
        text = tf.strings.regex_replace(text, _UNSEEN, " ")
    if name.endswith("_cf"):
        return tf_text.case_fold_utf8(text)
    return tf_text.normalize_utf8(text, "NFKC")
