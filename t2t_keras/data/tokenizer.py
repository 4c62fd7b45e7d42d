"""Interface of the subword tokenizers, which run inside the TensorFlow graph."""

import collections
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

import tensorflow as tf

from t2t_keras.data.text_normalization import DEFAULT_NORMALIZATION
from t2t_keras.data.word_counts import SEPARATORS, count_words

_SEPARATORS_RE2 = re.sub(r"\\(?:x|u)([0-9a-f]+)", r"\\x{\1}", SEPARATORS)


def clean(text: tf.Tensor) -> tf.Tensor:
    """Replaces each run of control characters and white space by one space.

    Args:
        text: `[...]` strings.
    """
    return tf.strings.regex_replace(text, _SEPARATORS_RE2, " ")


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
    def with_normalization(self, name: str) -> Self:
        """Returns a tokenizer with the same vocabulary and another normalization."""

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        vocab_size: int,
        normalization: str = DEFAULT_NORMALIZATION,
    ) -> Self:
        """Learns a vocabulary from text.

        Args:
            lines: Sentences.
            vocab_size: Maximum number of tokens. A small text may yield fewer.
            normalization: One of `NORMALIZATIONS`. Default "nmt_nfkc".

        Raises:
            UserError: If no vocabulary can be learned from the text.
        """
        return cls.learn(count_words(lines), vocab_size, normalization)

    @classmethod
    @abstractmethod
    def learn(
        cls,
        word_counts: Mapping[str, int],
        vocab_size: int,
        normalization: str = DEFAULT_NORMALIZATION,
        tags: Sequence[str] = (),
    ) -> Self:
        """Learns a vocabulary from the words of a text, like `train`.

        No piece of a vocabulary extends over several words. Counts of words are
        therefore all that the learners need, and they are much smaller than the text.

        Args:
            word_counts: Number of occurrences of each word.
            vocab_size: As for `train`.
            normalization: As for `train`.
            tags: Words that are one token each. Default none.

        Raises:
            UserError: If no vocabulary can be learned from the words.
        """

    @staticmethod
    @abstractmethod
    def normalized_words(words: Iterable[str], name: str) -> Iterator[str]:
        """Normalizes words in the same way as tokenizers of this class.

        Args:
            words: Words as returned by `split_lines`.
            name: One of `NORMALIZATIONS`.

        Yields:
            For each word, the normalized text, which may contain spaces.
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


def normalized_counts(
    kind: type[Tokenizer], word_counts: Mapping[str, int], name: str
) -> collections.Counter[str]:
    """Counts words after normalization.

    Args:
        kind: Class of the tokenizer.
        word_counts: Number of occurrences of each word before normalization.
        name: One of `NORMALIZATIONS`.

    Returns:
        The number of occurrences of each normalized word.
    """
    counts: collections.Counter[str] = collections.Counter()
    normalized = kind.normalized_words(word_counts, name)
    for text, count in zip(normalized, word_counts.values(), strict=True):
        for word in text.split():
            counts[word] += count
    return counts
