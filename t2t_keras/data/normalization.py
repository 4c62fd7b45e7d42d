"""Normalization of characters before text is divided into tokens.

The names are SentencePiece's. "nfkc" is Unicode's normalization form KC, which replaces
characters by compatible ones: full-width punctuation and superscripts become ASCII.
"nmt_nfkc" also replaces invisible characters, such as the zero-width space, by spaces.
"_cf" folds case. "identity" keeps text as it is. Runs of white space and of control
characters become one space under all of them: see `clean`.
"""

from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from t2t_keras.errors import UserError

DEFAULT_NORMALIZATION = "nmt_nfkc"
"""SentencePiece's own default."""

NORMALIZATIONS = (DEFAULT_NORMALIZATION, "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")

_UNSEEN = r"[\x{61c}\x{200b}\x{200c}\x{200e}\x{200f}\x{2581}\x{feff}\x{fffd}]"
"""What SentencePiece's "nmt_" rules make a space of, and neither `clean` nor NFKC."""


def check_normalization(name: str) -> None:
    """Makes sure that there is such a normalization.

    Raises:
        UserError: If it is none of `NORMALIZATIONS`.
    """
    if name not in NORMALIZATIONS:
        raise UserError(
            f"A normalization is one of {', '.join(NORMALIZATIONS)}. Received: {name!r}"
        )


def sentencepiece_normalizer(name: str) -> Any:
    """Returns what normalizes lines outside the graph as SentencePiece's models do.

    Args:
        name: One of `NORMALIZATIONS`.
    """
    import sentencepiece

    sentencepiece.set_min_log_level(2)
    # A model without any rule has SentencePiece print a line whenever it is loaded. The
    # one given is for a character that its models would show as a space anyway.
    is_identity = name == "identity"
    return sentencepiece.SentencePieceNormalizer(
        rule_name=None if is_identity else name,
        norm_map=[("\u2581", " ")] if is_identity else None,
        add_dummy_prefix=False,
        escape_whitespaces=False,
        remove_extra_whitespaces=True,
    )


def rules(name: str) -> bytes:
    """Returns a normalization as SentencePiece's models hold it."""
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
