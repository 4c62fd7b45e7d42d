"""Interface of the subword tokenizers, which run inside the TensorFlow graph."""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf

# C0 and C1 control characters, and all Unicode spaces and separators.
_CONTROL = r"[\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
_CONTROL_RE2 = re.sub(r"\\(?:x|u)([0-9a-f]+)", r"\\x{\1}", _CONTROL)


def clean(text: tf.Tensor) -> tf.Tensor:
    """Replaces each run of control characters and white space by one space.

    Args:
        text: `[...]` strings.
    """
    return tf.strings.regex_replace(text, _CONTROL_RE2, " ")


def clean_line(line: str) -> str:
    """Replaces each run of control characters and white space by one space."""
    return re.sub(_CONTROL, " ", line)


class CleanLines:
    """Cleans the lines that a vocabulary is learned from and keeps their error.

    Vocabulary learners replace an error in their input by one of their own.

    Attributes:
        error: Error raised while reading the lines, or None.
        characters: Set of the characters read so far.
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
    """Converts text to token ids and back, in the graph.

    In every vocabulary, ids 0 to 3 are padding, start, end and unknown.

    Attributes:
        subword: Type of subwords, a key of `TOKENIZERS`.
        vocab_size: Number of tokens.
        model: Serialized model. It defines the tokenizer completely.
        normalization: Normalization of the text, one of `NORMALIZATIONS`.
        module: Module that a SavedModel must track for the tokenizer's operations.
    """

    subword: str
    vocab_size: int
    normalization: str
    module: tf.Module

    def __init__(self, model: bytes) -> None:
        self.model = model

    @abstractmethod
    def with_normalization(self, name: str) -> "Tokenizer":
        """Returns a tokenizer with the same vocabulary and another normalization."""

    @staticmethod
    @abstractmethod
    def normalized_lines(lines: Iterable[str], name: str) -> Iterator[str]:
        """Normalizes lines in the same way as tokenizers of this class.

        Args:
            lines: Lines cleaned by `clean_line`.
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
        """Joins tokens into sentences; the inverse of `tokenize`.

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
        """Returns whether the text of a token starts a word."""

    def words(self, pieces: Sequence[str]) -> list[int]:
        """Returns the index of the word of each token of a sentence, from 0."""
        numbers, word = [], -1
        for piece in pieces:
            # The first token always starts a word.
            word += self.starts_word(piece) or word < 0
            numbers.append(word)
        return numbers

    @property
    def fingerprint(self) -> str:
        """Identifies the vocabulary: first 16 hex digits of the model's SHA-256."""
        return hashlib.sha256(self.model).hexdigest()[:16]
