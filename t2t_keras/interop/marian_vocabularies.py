"""Reads Marian's vocabularies: SentencePiece models, or tables of tokens in YAML."""

import re
from pathlib import Path
from typing import NamedTuple

from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.errors import UserError
from t2t_keras.files import user_path
from t2t_keras.interop.sentencepiece_vocab import (
    VocabularyOrder,
    parse_sentencepiece,
    read_tokenizer,
)

_EOS, _UNK = "</s>", "<unk>"
_ENTRY = re.compile(r"(?P<token>.*\S)\s*:\s+(?P<id>\d+)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b"}
_ESCAPE = re.compile(
    r"\\(?:x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r"|(?P<other>.))"
)


class MarianVocabularies(NamedTuple):
    """The vocabularies of both sides.

    Attributes:
        orders: Order of the source and of the target tokens. The same object twice if
            there is one vocabulary.
        tokenizers: The tokenizers.
    """

    orders: tuple[VocabularyOrder, VocabularyOrder]
    tokenizers: TokenizerPair

    def sizes(self) -> dict[str, int]:
        """Returns the vocabulary sizes as fields of the configuration."""
        source, target = (len(order.pieces) for order in self.orders)
        return {"source_vocab_size": source, "target_vocab_size": target}


def read_vocabularies(
    paths: tuple[Path, Path], sizes: tuple[int, int]
) -> MarianVocabularies:
    """Reads the vocabularies.

    Args:
        paths: The source and the target vocabulary: SentencePiece models (`.spm`), or
            tables in YAML (`.yml`), beside which source.spm and target.spm must lie.
        sizes: Number of rows of the embeddings. Rows without a token are kept.

    Raises:
        UserError: If a file is missing or damaged, or has more tokens than rows.
    """
    is_shared = paths[0].resolve() == paths[1].resolve()
    source = _read_order(paths[0], sizes[0])
    target = source if is_shared else _read_order(paths[1], sizes[1])
    models = tuple(map(_sentencepiece_model, paths, ("source", "target")))
    source_tokenizer = read_tokenizer(models[0], source)
    target_tokenizer = source_tokenizer
    if models[0] != models[1] or not is_shared:
        target_tokenizer = read_tokenizer(models[1], target)
    tokenizers = TokenizerPair(source_tokenizer, target_tokenizer, is_shared)
    return MarianVocabularies((source, target), tokenizers)


def _sentencepiece_model(vocabulary: Path, side: str) -> Path:
    """Returns the path of the SentencePiece model of a vocabulary."""
    if vocabulary.suffix == ".spm":
        return vocabulary
    path = vocabulary.with_name(f"{side}.spm")
    if not path.is_file():
        other = next(iter(sorted(vocabulary.parent.glob("*.bpe"))), None)
        received = "none" if other is None else f"{other.name} of subword-nmt"
        raise UserError(
            f"{vocabulary.parent} must contain the SentencePiece model {side}.spm. "
            f"Received: {received}"
        )
    return path


def _read_order(path: Path, size: int) -> VocabularyOrder:
    """Returns the order of the tokens of a vocabulary."""
    with user_path(path, "read"):
        content = path.read_bytes()
    if path.suffix == ".spm":
        proto = parse_sentencepiece(content, path)
        pieces = [piece.piece for piece in proto.pieces]
        eos, unk = proto.trainer_spec.eos_id, proto.trainer_spec.unk_id
        special = {_EOS: eos, _UNK: unk}
    else:
        pieces = _read_table(path, content, size)
        special = {t: pieces.index(t) for t in (_EOS, _UNK) if t in pieces}
    for token in (_EOS, _UNK):
        if not 0 <= special.get(token, -1) < len(pieces):
            raise UserError(f"{path} lacks the special token {token}.")
    if len(pieces) > size:
        raise UserError(
            f"{path} has {len(pieces):,} tokens, but the model only {size:,}: they do "
            "not belong together."
        )
    pieces += [f"<unused {i}>" for i in range(len(pieces), size)]
    return VocabularyOrder.of(pieces, special[_EOS], special[_UNK])


def _read_table(path: Path, content: bytes, size: int) -> list[str]:
    """Returns the tokens of a table by id.

    Marian writes one token and its id in each line, in an order of its own, and not
    always valid YAML: tokens such as `?` are not quoted.
    """
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is damaged: it is not valid UTF-8.") from error
    found: dict[int, str] = {}
    key = ""
    for number, line in enumerate(lines, 1):
        line = line.removesuffix("\r")
        if not line or line in ("---", "...", "{}"):
            continue
        # Long keys are written as "? token" and ": id" in the next line.
        if line.startswith("? ") and not _ENTRY.fullmatch(line):
            key = line[2:]
            continue
        entry = _ENTRY.fullmatch(f"{key}{line}" if key else line)
        key = ""
        if entry is None:
            raise UserError(
                f"{path}: line {number} must be a token and its id. Received: {line!r}"
            )
        token, index = _unquote(entry["token"]), int(entry["id"])
        if index >= size or index in found:
            raise UserError(
                f"{path}: the id of {token!r} must be a different number below "
                f"{size:,} for each token. Received: {index}"
            )
        found[index] = token
    if sorted(found) != list(range(len(found))):
        raise UserError(f"{path} is damaged: the ids are not consecutive.")
    return [found[index] for index in range(len(found))]


def _unquote(token: str) -> str:
    """Returns the text of a token in YAML."""
    if len(token) >= 2 and token[0] == token[-1] == '"':
        return _ESCAPE.sub(_unescape, token[1:-1])
    if len(token) >= 2 and token[0] == token[-1] == "'":
        return token[1:-1].replace("''", "'")
    return token


def _unescape(match: re.Match[str]) -> str:
    code = match["x"] or match["u"] or match["U"]
    if code:
        return chr(int(code, 16))
    return _ESCAPES.get(match["other"], match["other"])
