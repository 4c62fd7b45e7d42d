"""Reads the vocabularies of a Hugging Face Marian model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.errors import UserError
from t2t_keras.interop.hf_tokenizer import own_vocabulary
from t2t_keras.interop.sentencepiece_vocab import VocabularyOrder, read_tokenizer
from t2t_keras.json_file import read_object
from t2t_keras.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

_TOKENIZER = "MarianTokenizer"


class Vocabularies(NamedTuple):
    """The vocabularies of both sides.

    Attributes:
        source: Vocabulary of the source side.
        target: Vocabulary of the target side; the same object if there is only one.
        special: Ids of "pad", "start", "eos" and "unk" on the target side.
    """

    source: VocabularyOrder
    target: VocabularyOrder
    special: dict[str, int]

    def sizes(self) -> tuple[int, int]:
        """Returns the number of source and of target tokens."""
        return len(self.source.pieces), len(self.target.pieces)

    def tokenizers(self, path: Path) -> TokenizerPair:
        """Reads the tokenizers of both sides."""
        return TokenizerPair(
            read_tokenizer(path / "source.spm", self.source),
            read_tokenizer(path / "target.spm", self.target),
            shared=self.source is self.target,
        )


def read_vocabularies(
    path: Path, sizes: tuple[int, int], ids: Mapping[str, Any]
) -> Vocabularies:
    """Reads the vocabularies.

    Args:
        path: The model directory.
        sizes: Number of rows of the source and the target embeddings.
        ids: Values of config.json and of generation_config.json, which take precedence.

    Raises:
        UserError: If a file is missing or damaged, or a special token is missing.
    """
    tokenizer_path = path / "tokenizer_config.json"
    tokenizer = read_object(tokenizer_path) if tokenizer_path.is_file() else {}
    kind = tokenizer.get("tokenizer_class", _TOKENIZER)
    if kind != _TOKENIZER:
        raise UserError(
            f"{tokenizer_path}: tokenizer_class={kind!r} is not supported. It must be "
            f"{_TOKENIZER!r}."
        )
    is_separate = tokenizer.get("separate_vocabs", False)
    names = ["vocab.json", "target_vocab.json"] if is_separate else ["vocab.json"]
    pieces = [
        _read_pieces(path / name, size)
        for name, size in zip(names, sizes, strict=False)
    ]
    start_id = ids["decoder_start_token_id"]
    exported = [own_vocabulary(each, start_id) for each in pieces]
    if exported[0] and exported[-1]:
        source, target = (
            VocabularyOrder(each, [*range(len(each))])
            for each in (exported[0], exported[-1])
        )
        special = {"pad": PAD_ID, "start": BOS_ID, "eos": EOS_ID, "unk": UNK_ID}
        return Vocabularies(source if is_separate else target, target, special)
    tokens = {
        name: _id_of(path, names[-1], pieces[-1], tokenizer.get(f"{name}_token", text))
        for name, text in (("eos", "</s>"), ("unk", "<unk>"))
    }
    end = ids["eos_token_id"]
    if end not in (tokens["eos"], [tokens["eos"]]):
        raise UserError(
            f"{path}: eos_token_id={end!r} is not supported. It must be the id of the "
            f"tokenizer's end token, {tokens['eos']}."
        )
    for name, key in (("pad", "pad_token_id"), ("start", "decoder_start_token_id")):
        tokens[name] = ids[key]
        if type(ids[key]) is not int or not 0 <= ids[key] < len(pieces[-1]):
            raise UserError(
                f"{path}: {key} must be an id of the vocabulary, from 0 to "
                f"{len(pieces[-1]) - 1}. Received: {ids[key]!r}"
            )
    target = VocabularyOrder.of(
        pieces[-1], tokens["eos"], tokens["unk"], tokens["pad"], tokens["start"]
    )
    if not is_separate:
        return Vocabularies(target, target, tokens)
    source = VocabularyOrder.of(
        pieces[0],
        *(
            _id_of(path, names[0], pieces[0], tokenizer.get(f"{name}_token", text))
            for name, text in (("eos", "</s>"), ("unk", "<unk>"), ("pad", "<pad>"))
        ),
    )
    return Vocabularies(source, target, tokens)


def _read_pieces(path: Path, size: int) -> list[str]:
    """Returns the text of each token of a vocabulary file.

    Args:
        path: The file, a JSON object with the id of each token.
        size: Number of rows of the embeddings. Rows between tokens get a name; rows
            after the last token are not used.
    """
    found = read_object(path)
    if not found:
        raise UserError(f"{path} is damaged: it has no tokens.")
    for piece, number in found.items():
        if type(number) is not int or not 0 <= number < size:
            raise UserError(
                f"{path}: the id of {piece!r} must be an integer from 0 to {size - 1}. "
                f"Received: {number!r}"
            )
    if len({*found.values()}) < len(found):
        raise UserError(f"{path} is damaged: two tokens have the same id.")
    names = {number: piece for piece, number in found.items()}
    return [names.get(number, f"<unused {number}>") for number in range(max(names) + 1)]


def _id_of(path: Path, name: str, pieces: list[str], token: Any) -> int:
    """Returns the id of a special token."""
    # Older versions wrote an object with the properties of the token.
    text = token.get("content") if isinstance(token, dict) else token
    if text not in pieces:
        raise UserError(f"{path / name} lacks the special token {text!r}.")
    return pieces.index(text)


def read_languages(path: Path) -> tuple[str, str]:
    """Returns the languages that the tokenizer names, "und" if it names none."""
    path = path / "tokenizer_config.json"
    settings = read_object(path) if path.is_file() else {}
    names = (settings.get(f"{side}_lang") for side in ("source", "target"))
    source, target = (n if isinstance(n, str) and n else "und" for n in names)
    return source, target
