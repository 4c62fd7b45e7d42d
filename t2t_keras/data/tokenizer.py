"""Subword tokenizers that run inside the TensorFlow graph.

Sennrich et al. (2016) for byte-pair encoding, Kudo (2018) for the unigram model, Wu
et al. (2016) for word pieces; SentencePiece and tensorflow-text do the work.
"""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf

# C0 and C1 controls, and all of Unicode's spaces and separators.
_CONTROL = r"[\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
_CONTROL_RE2 = re.sub(r"\\(?:x|u)([0-9a-f]+)", r"\\x{\1}", _CONTROL)


def clean(text: tf.Tensor) -> tf.Tensor:
    """Turns runs of control characters and of white space into a space.

    Args:
        text: `[...]` strings.
    """
    return tf.strings.regex_replace(text, _CONTROL_RE2, " ")


def clean_line(line: str) -> str:
    """Turns runs of control characters and of white space into a space."""
    return re.sub(_CONTROL, " ", line)


class CleanLines:
    """Cleans the lines that a vocabulary is learned from, and keeps their error.

    The learners turn what their input raises into errors of their own.

    Attributes:
        error: What reading the lines raised, or None.
        characters: The different characters that have come.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self.error: Exception | None = None
        self.characters: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self._lines:
                cleaned = clean_line(line)
                self.characters.update(cleaned)
                yield cleaned
        except Exception as error:
            self.error = error
            raise


class Tokenizer(ABC):
    """Text to token ids and back, in the graph.

    Ids 0 to 3 are padding, start, end and unknown, whatever the kind of model.

    Attributes:
        vocab_size: Number of tokens.
        model: The trained model as bytes, all that there is to a tokenizer.
        normalization: What is done to text first, one of `NORMALIZATIONS`.
        module: What a SavedModel has to keep for the tokenizer's operations.
    """

    subword: str
    vocab_size: int
    normalization: str
    module: tf.Module

    def __init__(self, model: bytes) -> None:
        self.model = model

    @abstractmethod
    def with_normalization(self, name: str) -> "Tokenizer":
        """Returns a tokenizer of the same vocabulary that normalizes otherwise."""

    @staticmethod
    @abstractmethod
    def normalized_lines(lines: Iterable[str], name: str) -> Iterator[str]:
        """Normalizes lines as tokenizers of this kind do.

        Args:
            lines: Lines that are clean.
            name: One of `NORMALIZATIONS`.
        """

    @abstractmethod
    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Splits sentences into tokens.

        Args:
            text: `[batch]` UTF-8 strings.

        Returns:
            `[batch, (tokens)]` int32, without start and end.
        """

    @abstractmethod
    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins tokens into sentences; the reverse of `tokenize`.

        Args:
            ids: `[batch, (tokens)]` int32, without padding, start and end.

        Returns:
            `[batch]` strings.
        """

    @abstractmethod
    def pieces(self) -> list[str]:
        """Returns the text of every token, by id."""

    @abstractmethod
    def starts_word(self, piece: str) -> bool:
        """Tells whether a token's text begins a word, rather than goes on with one."""

    def words(self, pieces: Sequence[str]) -> list[int]:
        """Returns for each token of a sentence the number of its word, from 0."""
        numbers, word = [], -1
        for piece in pieces:
            # The first token begins a word, whatever it looks like.
            word += self.starts_word(piece) or word < 0
            numbers.append(word)
        return numbers

    @property
    def fingerprint(self) -> str:
        """Tells vocabularies apart: the first 16 hex digits of the model's SHA-256."""
        return hashlib.sha256(self.model).hexdigest()[:16]
