"""The tokenizers of both sides, learned, saved and loaded together."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from t2t_keras.data.subwords import (
    SentencePieceTokenizer,
    UnigramTokenizer,
    WordPieceTokenizer,
)
from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.files import write_atomically

TOKENIZERS: dict[str, type[Any]] = {
    "bpe": SentencePieceTokenizer,
    "unigram": UnigramTokenizer,
    "wordpiece": WordPieceTokenizer,
}
"""The class behind each value of `--subword`."""


class TokenizerPair:
    """The tokenizers of both sides: one and the same, or two.

    Args:
        source: Tokenizer of the source side.
        target: Tokenizer of the target side; the same object where it is shared.
    """

    _INDEX = "tokenizer.json"

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        self.source = source
        self.target = target

    @property
    def shared(self) -> bool:
        """Whether both sides use one vocabulary."""
        return self.source is self.target

    @property
    def fingerprint(self) -> str:
        """Tells vocabularies apart, for manifests and error messages."""
        if self.shared:
            return self.source.fingerprint
        return f"{self.source.fingerprint}-{self.target.fingerprint}"

    @classmethod
    def train(
        cls,
        pairs: Callable[[], Iterable[tuple[str, str]]],
        subword: str,
        vocab_size: int,
        shared: bool,
    ) -> "TokenizerPair":
        """Learns one vocabulary of both sides together, or one of each.

        Args:
            pairs: Gives the training pairs anew at each call.
            subword: A key of `TOKENIZERS`.
            vocab_size: Number of tokens of each vocabulary.
            shared: Whether to learn one vocabulary.

        Raises:
            ValueError: If no such vocabulary can be learned from the text.
        """
        kind = TOKENIZERS[subword]

        def lines(sides: slice) -> Iterable[str]:
            return (text for pair in pairs() for text in pair[sides])

        if shared:
            tokenizer = kind.train(lines(slice(0, 2)), vocab_size)
            return cls(tokenizer, tokenizer)
        return cls(
            kind.train(lines(slice(0, 1)), vocab_size),
            kind.train(lines(slice(1, 2)), vocab_size),
        )

    def save(self, directory: str | Path) -> None:
        """Writes the models and an index of them into a directory."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        sides = {"shared": self.source}
        if not self.shared:
            sides = {"source": self.source, "target": self.target}
        for side, tokenizer in sides.items():
            write_atomically(directory / f"{side}.model", tokenizer.model)
        index = {"subword": self.source.subword, "shared": self.shared}
        write_atomically(directory / self._INDEX, json.dumps(index).encode())

    @classmethod
    def load(cls, directory: str | Path) -> "TokenizerPair":
        """Reads what `save` wrote.

        Raises:
            ValueError: If the directory holds no tokenizer, or a damaged one.
        """
        directory = Path(directory)
        index_path = directory / cls._INDEX
        if not index_path.is_file():
            raise ValueError(f"{directory} holds no tokenizer ({cls._INDEX}).")
        try:
            index = json.loads(index_path.read_text())
            kind = TOKENIZERS[index["subword"]]
            names = ["shared"] if index["shared"] else ["source", "target"]
            sides = [kind((directory / f"{name}.model").read_bytes()) for name in names]
        except (OSError, ValueError, KeyError, tf.errors.OpError) as error:
            raise ValueError(
                f"The tokenizer in {directory} is damaged: {error}"
            ) from error
        return cls(sides[0], sides[-1])
