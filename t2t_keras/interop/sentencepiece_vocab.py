"""Vocabularies of other frameworks as SentencePiece models.

Other frameworks number tokens with a table beside the SentencePiece model, such as
`vocab.json`. Here, the model is rewritten so that the order of its pieces is the order
of ids: tokenizers and SavedModels need no table.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import tensorflow as tf

from t2t_keras.data.subwords import (
    SentencePieceTokenizer,
    UnigramTokenizer,
    parse_model,
)
from t2t_keras.errors import UserError
from t2t_keras.files import user_path
from t2t_keras.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

_UNKNOWN, _CONTROL, _UNUSED = 2, 3, 5
"""Types of pieces in SentencePiece's protocol buffer."""

_UNIGRAM, _BPE = 1, 2
_TYPE_NAMES = {_UNIGRAM: "unigram", _BPE: "bpe", 3: "word", 4: "char"}
"""Names of SentencePiece's values of model_type."""

_TOKENIZERS: dict[int, type[SentencePieceTokenizer]] = {
    _UNIGRAM: UnigramTokenizer,
    _BPE: SentencePieceTokenizer,
}
_SPACE = "\u2581"
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""Characters that no token may contain."""


class VocabularyOrder(NamedTuple):
    """The tokens of a foreign vocabulary in the order of this project's ids.

    The first four ids are those of `t2t_keras.special_tokens`; the other tokens follow
    in their foreign order.

    Attributes:
        pieces: Text of each token: `<pad>`, `<s>`, `</s>`, `<unk>` and the others.
        foreign_ids: Foreign id of each token; -1 if the foreign vocabulary lacks it.
    """

    pieces: list[str]
    foreign_ids: list[int]

    @classmethod
    def of(
        cls,
        pieces: Sequence[str],
        eos_id: int,
        unk_id: int,
        pad_id: int = -1,
        start_id: int = -1,
    ) -> Self:
        """Orders a foreign vocabulary.

        Args:
            pieces: Text of each foreign token, by foreign id.
            eos_id: Foreign id of the end token.
            unk_id: Foreign id of the unknown token.
            pad_id: Foreign id of the padding token. Default -1: there is none.
            start_id: Foreign id of the token that decoding starts with. It may be the
                padding or the end token. Default -1: there is none, decoding starts
                with a zero embedding.
        """
        names = ["<pad>", "<s>", "</s>", "<unk>"]
        special = [pad_id, start_id, eos_id, unk_id]
        placed = {pad_id, eos_id, unk_id}
        # An ordinary token that decoding starts with, such as a language token, also
        # keeps its place among the others.
        if start_id >= 0 and pieces[start_id] == "<s>":
            placed.add(start_id)
        others = [i for i in range(len(pieces)) if i not in placed]
        texts = (f"<{i}>" if pieces[i] in names else pieces[i] for i in others)
        return cls([*names, *texts], special + others)

    def rows(self, array: np.ndarray) -> np.ndarray:
        """Returns the rows of an array by foreign ids, in the order of the tokens.

        Args:
            array: `[foreign vocabulary, ...]`.

        Returns:
            `[vocabulary, ...]` float32; zeros for tokens without a foreign id.
        """
        ids = np.array(self.foreign_ids)
        found = array[np.maximum(ids, 0)].astype(np.float32)
        found[ids < 0] = 0
        return found


def read_tokenizer(path: Path, order: VocabularyOrder) -> SentencePieceTokenizer:
    """Reads a SentencePiece model as a tokenizer with the ids of a vocabulary.

    Pieces of the vocabulary that the model lacks, such as those of the other language
    and language tokens, become unused pieces; see `SentencePieceTokenizer`. Pieces of
    the model that the vocabulary lacks are dropped: text is split into smaller pieces.

    Args:
        path: The SentencePiece model.
        order: The vocabulary.

    Raises:
        UserError: If the file is damaged, its type is neither unigram nor BPE, or it is
            a BPE model with other pieces than the vocabulary: their merges would
            change.
    """
    with user_path(path, "read"):
        content = path.read_bytes()
    return rewrite_model(content, order, path)


def rewrite_model(
    model: bytes, order: VocabularyOrder, path: Path
) -> SentencePieceTokenizer:
    """Returns the tokenizer of `read_tokenizer` for the content of a file.

    Args:
        model: Serialized SentencePiece model.
        order: The vocabulary.
        path: The file, for messages.
    """
    proto = parse_sentencepiece(model, path)
    kind = proto.trainer_spec.model_type
    if kind not in _TOKENIZERS:
        raise UserError(
            f"{path}: the SentencePiece model must be of type unigram or bpe. "
            f"Received: {_TYPE_NAMES.get(kind, kind)}"
        )
    pieces = _pieces(proto, order, path)
    if kind == _BPE:
        _check_same_pieces(proto, order, path)
    del proto.pieces[:]
    for piece, score, type_ in pieces:
        proto.pieces.add(piece=piece, score=score, type=type_)
    spec = proto.trainer_spec
    spec.pad_id, spec.bos_id, spec.eos_id, spec.unk_id = PAD_ID, BOS_ID, EOS_ID, UNK_ID
    spec.pad_piece, spec.bos_piece, spec.eos_piece, spec.unk_piece = order.pieces[:4]
    spec.vocab_size = len(pieces)
    # Language tokens are pieces, and need no further declaration.
    del spec.user_defined_symbols[:]
    try:
        return _TOKENIZERS[kind](proto.SerializeToString(deterministic=True))
    except (ValueError, tf.errors.OpError) as error:
        raise UserError(f"The tokenizer {path} is damaged: {error}") from error


def _check_same_pieces(proto: Any, order: VocabularyOrder, path: Path) -> None:
    """Checks that a BPE model keeps all of its pieces and gets no others.

    Additional pieces can change which merges apply, even if they are unused.
    """
    special = (_CONTROL, _UNKNOWN)
    model = {p.piece for p in proto.pieces if p.type not in special}
    controls = {p.piece for p in proto.pieces if p.type in special}
    vocabulary = {p for p in order.pieces[4:] if not _is_language_token(p)} - controls
    if missing := len(model - vocabulary):
        raise UserError(
            f"{path}: {missing:,} pieces of this BPE model are missing in the "
            "vocabulary, which would change its merges."
        )
    if others := len(vocabulary - model):
        raise UserError(
            f"{path}: the vocabulary has {others:,} pieces that this BPE model lacks, "
            "which would change its merges. A joint vocabulary needs unigram models."
        )


def parse_sentencepiece(model: bytes, path: Path) -> Any:
    """Parses a SentencePiece model.

    Args:
        model: The content of the file.
        path: The file, for messages.

    Returns:
        The protocol buffer.

    Raises:
        UserError: If the file is damaged.
    """
    from google.protobuf.message import DecodeError

    try:
        proto = parse_model(model)
    except DecodeError as error:
        raise UserError(f"The SentencePiece model {path} is damaged.") from error
    # Invalid UTF-8 is parsed as bytes.
    if not all(isinstance(piece.piece, str) for piece in proto.pieces):
        raise UserError(f"The SentencePiece model {path} is damaged.")
    if not proto.pieces:
        raise UserError(f"{path} is no SentencePiece model: it has no pieces.")
    return proto


def _pieces(
    proto: Any, order: VocabularyOrder, path: Path
) -> list[tuple[str, float, int]]:
    """Returns piece, score and type of each token."""
    known = {piece.piece: piece for piece in proto.pieces}
    pieces: list[tuple[str, float, int]] = [
        (piece, 0.0, _UNKNOWN if number == UNK_ID else _CONTROL)
        for number, piece in enumerate(order.pieces[:4])
    ]
    taken = {piece for piece, *_ in pieces}
    for piece in order.pieces[4:]:
        # SentencePiece crashes on null characters. Surrogates cannot be encoded.
        if not piece or _NO_TEXT.search(piece):
            raise UserError(
                f"{path}: the vocabulary has a token that is no text. Received: "
                f"{piece!r}"
            )
        found = known.get(piece)
        if found is None or found.type == _UNKNOWN:
            pieces.append((piece, 0.0, _UNUSED))
        else:
            pieces.append((piece, found.score, found.type))
        if pieces[-1][0] in taken:
            raise UserError(f"{path}: the vocabulary has the token {piece!r} twice.")
        taken.add(pieces[-1][0])
    return pieces


def _is_language_token(piece: str) -> bool:
    return piece.startswith(">>") and piece.endswith("<<") and len(piece) > 4
