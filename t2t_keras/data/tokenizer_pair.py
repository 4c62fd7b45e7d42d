"""The source and target tokenizers, learned, saved and loaded together."""

import collections
import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from t2t_keras.data.subwords import (
    SentencePieceTokenizer,
    UnigramTokenizer,
    WordPieceTokenizer,
)
from t2t_keras.data.text_normalization import DEFAULT_NORMALIZATION, check_normalization
from t2t_keras.data.tokenizer import Tokenizer, normalized_counts
from t2t_keras.data.word_counts import count_words
from t2t_keras.errors import UserError
from t2t_keras.files import user_path, write_atomically
from t2t_keras.json_file import read_object

TOKENIZERS: dict[str, type[Any]] = {
    "bpe": SentencePieceTokenizer,
    "unigram": UnigramTokenizer,
    "wordpiece": WordPieceTokenizer,
}
"""Class for each value of `--subword`."""

_CHUNK_PAIRS = 4096

_MODELS = (["shared"], ["source", "target"])
"""Names of the model files of a shared or separate pair."""


class TokenizerPair:
    """The tokenizers of the source and the target side.

    Args:
        source: Tokenizer of the source side.
        target: Tokenizer of the target side. May be the same object.
        shared: Whether both have the same vocabulary, so that a token has the same id
            on both sides. Two tokenizers can share a vocabulary and differ in their
            normalization. Default None (True if they are the same object).

    Attributes:
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
        shared: Whether both have the same vocabulary.
    """

    _INDEX = "tokenizer.json"

    def __init__(
        self, source: Tokenizer, target: Tokenizer, shared: bool | None = None
    ) -> None:
        self.source = source
        self.target = target
        self.shared = source is target if shared is None else shared

    @property
    def normalization(self) -> dict[str, str]:
        """Normalization of "source" and "target", each one of `NORMALIZATIONS`."""
        return {
            "source": self.source.normalization,
            "target": self.target.normalization,
        }

    @property
    def fingerprint(self) -> str:
        """Identifies the vocabularies in manifests and error messages."""
        if self.source is self.target:
            return self.source.fingerprint
        return f"{self.source.fingerprint}-{self.target.fingerprint}"

    def description(self) -> dict[str, Any]:
        """Returns the entries of a manifest that describe the vocabularies."""
        return {
            "subword": self.source.subword,
            "source_vocab_size": self.source.vocab_size,
            "target_vocab_size": self.target.vocab_size,
            "share_vocabulary": self.shared,
            "vocabulary_fingerprint": self.fingerprint,
            "normalization": self.normalization,
        }

    @classmethod
    def train(
        cls,
        pairs: Iterable[tuple[str, str]],
        subword: str,
        vocab_size: int,
        shared: bool,
        source_normalization: str = DEFAULT_NORMALIZATION,
        target_normalization: str = DEFAULT_NORMALIZATION,
        tags: Sequence[str] = (),
    ) -> "TokenizerPair":
        """Learns one shared vocabulary or one for each side.

        Args:
            pairs: The training pairs.
            subword: Type of subwords, a key of `TOKENIZERS`.
            vocab_size: Number of tokens of each vocabulary.
            shared: Whether to learn one vocabulary for both sides.
            source_normalization: Normalization of the source side, one of
                `NORMALIZATIONS`. Default "nmt_nfkc".
            target_normalization: Normalization of the target side, one of
                `NORMALIZATIONS`. Default "nmt_nfkc".
            tags: Words that are one token each of the source side. Default none.

        Raises:
            UserError: If the vocabulary cannot be learned from the text.
        """
        kind = TOKENIZERS[subword]
        names = source_normalization, target_normalization
        for name in names:
            check_normalization(name)
        counts = _count_sides(pairs)
        if not shared:
            return cls(
                kind.learn(counts[0], vocab_size, names[0], tags),
                kind.learn(counts[1], vocab_size, names[1]),
            )
        if source_normalization == target_normalization:
            both = counts[0] + counts[1]
            tokenizer = kind.learn(both, vocab_size, source_normalization, tags)
            return cls(tokenizer, tokenizer)
        normalized = [
            normalized_counts(kind, side, name)
            for side, name in zip(counts, names, strict=True)
        ]
        both = normalized[0] + normalized[1]
        learned = kind.learn(both, vocab_size, "identity", tags)
        source, target = (learned.with_normalization(name) for name in names)
        return cls(source, target, shared=True)

    def save(self, directory: str | Path) -> None:
        """Saves the tokenizers and their index to a directory."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        models = {"shared": self.source}
        if self.source is not self.target:
            models = {"source": self.source, "target": self.target}
        for name, tokenizer in models.items():
            write_atomically(directory / f"{name}.model", tokenizer.model)
        index = {
            "subword": self.source.subword,
            "shared": self.shared,
            "models": [*models],
        }
        write_atomically(directory / self._INDEX, json.dumps(index).encode())

    @classmethod
    def load(cls, directory: str | Path) -> "TokenizerPair":
        """Loads tokenizers from a directory written by `save`.

        Raises:
            UserError: If the directory has no tokenizer or the tokenizer is damaged.
        """
        directory = Path(directory)
        index_path = directory / cls._INDEX
        with user_path(directory, "read"):
            if not index_path.is_file():
                raise UserError(f"{directory} holds no tokenizer ({cls._INDEX}).")
        index = read_object(index_path, ["subword", "shared"])
        # Older versions did not write "models".
        default = ["shared"] if index["shared"] else ["source", "target"]
        names = index.get("models", default)
        if index["subword"] not in [*TOKENIZERS] or names not in _MODELS:
            raise UserError(f"{index_path} is damaged: it holds {index}.")
        kind = TOKENIZERS[index["subword"]]
        sides = []
        for path in (directory / f"{name}.model" for name in names):
            with user_path(path, "read"):
                model = path.read_bytes()
            try:
                sides.append(kind(model))
            except (ValueError, tf.errors.OpError) as error:
                raise UserError(f"The tokenizer {path} is damaged: {error}") from error
        return cls(sides[0], sides[-1], index["shared"])


def _count_sides(
    pairs: Iterable[tuple[str, str]],
) -> tuple[collections.Counter[str], collections.Counter[str]]:
    """Counts the words of the sources and of the targets."""
    sides: tuple[collections.Counter[str], collections.Counter[str]]
    sides = collections.Counter(), collections.Counter()
    remaining = iter(pairs)
    while chunk := list(itertools.islice(remaining, _CHUNK_PAIRS)):
        for counts, lines in zip(sides, zip(*chunk, strict=True), strict=True):
            counts.update(count_words(lines))
    return sides
