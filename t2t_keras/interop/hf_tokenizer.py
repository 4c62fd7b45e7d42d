"""Tokenizer files in the format of Hugging Face's MarianTokenizer.

It splits text with a SentencePiece model and looks up the id of each piece in a table.
The ids are those of this project. Pegasus directories use it too: its two models and
tables cover separate vocabularies, and SentencePiece itself splits the text.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from t2t_keras.data.subwords import SentencePieceTokenizer, parse_model
from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.errors import UserError
from t2t_keras.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

UNUSED_PADDING = "<blank>"
"""Name of the padding token of this project where models pad with the last token."""

_SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")


def check_tokenizers(tokenizers: TokenizerPair) -> None:
    """Checks that Hugging Face's tokenizer can read the vocabularies.

    Raises:
        UserError: If they are not SentencePiece models.
    """
    if not isinstance(tokenizers.source, SentencePieceTokenizer):
        raise UserError(
            "--format=hf needs a SentencePiece vocabulary, --subword=bpe or unigram. "
            f"Received: subword={tokenizers.source.subword}"
        )


def write_tokenizer(
    directory: Path,
    tokenizers: TokenizerPair,
    languages: tuple[str, str],
    rows: int,
    pad_id: int,
    max_length: int,
) -> None:
    """Writes the tokenizer files.

    Args:
        directory: The model directory.
        tokenizers: The tokenizers, SentencePiece models.
        languages: Source and target language; "und" if unknown.
        rows: Number of rows of the embeddings.
        pad_id: Id of the token that inputs are padded with. If it is the last row, that
            row gets the name of the padding token.
        max_length: Maximum number of tokens of an input, end token included.
    """
    sides = {"source": tokenizers.source, "target": tokenizers.target}
    for side, tokenizer in sides.items():
        (directory / f"{side}.spm").write_bytes(tokenizer.model)
    source, pieces = (
        token_names(each, rows if pad_id == rows - 1 else 0) for each in sides.values()
    )
    names = {"vocab.json": source}
    if not tokenizers.shared:
        names["target_vocab.json"] = pieces
    for name, tokens in names.items():
        write_json(directory / name, {token: i for i, token in enumerate(tokens)})
    settings = {
        "tokenizer_class": "MarianTokenizer",
        **{
            f"{side}_lang": language
            for side, language in zip(sides, languages, strict=True)
            if language != "und"
        },
        "separate_vocabs": not tokenizers.shared,
        "eos_token": pieces[EOS_ID],
        "unk_token": pieces[UNK_ID],
        "pad_token": pieces[pad_id],
        "model_max_length": max_length,
        # "</s>" in a text is text, and so is a space before punctuation.
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
    }
    write_json(directory / "tokenizer_config.json", settings)


def token_names(tokenizer: Tokenizer, rows: int = 0) -> list[str]:
    """Returns the name of each token in Hugging Face's table, by id.

    Args:
        tokenizer: The tokenizer, a SentencePiece model.
        rows: Number of tokens if the last one is to be the padding token. Default 0: as
            many as the tokenizer has, which begin with the padding token.
    """
    names = [piece.piece for piece in parse_model(tokenizer.model).pieces]
    if not rows:
        return names
    padding, names[PAD_ID] = names[PAD_ID], UNUSED_PADDING
    unused = [f"<unused {number}>" for number in range(len(names), rows - 1)]
    return [*names, *unused, padding]


def own_vocabulary(names: Sequence[str], start_id: int) -> list[str] | None:
    """Returns the pieces that `token_names` made names of.

    Args:
        names: Name of each token, by id.
        start_id: Id of the token that decoding starts with.

    Returns:
        The pieces by the ids of this project; None if the names are not those of an
        exported model.
    """
    special = [*_SPECIAL]
    if start_id == BOS_ID and [*names[:4]] == special:
        return [*names]
    if [*names[:4], names[-1]] != [UNUSED_PADDING, *special[1:], special[PAD_ID]]:
        return None
    pieces = [names[-1], *names[1:-1]]
    while pieces[-1] == f"<unused {len(pieces) - 1}>":
        pieces.pop()
    return pieces


def write_json(path: Path, content: object) -> None:
    """Writes a JSON file."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    path.write_text(f"{text}\n", encoding="utf-8")
