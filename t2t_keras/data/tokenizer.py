"""Subword tokenizers that run inside the TensorFlow graph.

Sennrich et al. (2016) for byte-pair encoding, Kudo (2018) for the unigram model, Wu
et al. (2016) for word pieces; SentencePiece and tensorflow-text do the work.
"""

import collections
import hashlib
import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from t2t_keras.files import write_atomically
from t2t_keras.tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

_MOST_DISTINCT_WORDS = 100_000
"""How many words the word piece vocabulary is learned from, the frequent ones."""

# C0 and C1 controls, and Unicode's own line and paragraph separators.
_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+"
_CONTROL_RE2 = re.sub(r"\\(?:x|u)([0-9a-f]+)", r"\\x{\1}", _CONTROL)


def clean(text: tf.Tensor) -> tf.Tensor:
    """Turns runs of control characters, tabs and NULs among them, into a space.

    Args:
        text: `[...]` strings.
    """
    return tf.strings.regex_replace(text, _CONTROL_RE2, " ")


class _Lines:
    """Cleans the lines that a vocabulary is learned from, and keeps their error.

    The learners turn what their input raises into errors of their own.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self._lines:
                yield re.sub(_CONTROL, " ", line)
        except Exception as error:
            self.error = error
            raise


class Tokenizer(ABC):
    """Text to token ids and back, in the graph.

    Ids 0 to 3 are padding, start, end and unknown, whatever the kind of model.

    Attributes:
        vocab_size: Number of tokens.
        model: The trained model as bytes, all that there is to a tokenizer.
    """

    subword: str
    vocab_size: int

    def __init__(self, model: bytes) -> None:
        self.model = model

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

    @property
    def fingerprint(self) -> str:
        """Tells vocabularies apart: the first 16 hex digits of the model's SHA-256."""
        return hashlib.sha256(self.model).hexdigest()[:16]


class SentencePieceTokenizer(Tokenizer):
    """SentencePiece, for byte-pair encoding and the unigram model.

    Args:
        model: A serialized SentencePiece model with this project's special ids.
    """

    subword = "bpe"

    def __init__(self, model: bytes) -> None:
        super().__init__(model)
        self._tokenizer = tf_text.SentencepieceTokenizer(model=model)
        self.vocab_size = int(self._tokenizer.vocab_size())

    @classmethod
    def train(cls, lines: Iterable[str], vocab_size: int) -> "SentencePieceTokenizer":
        """Learns the subwords of some text.

        Args:
            lines: Sentences.
            vocab_size: Number of tokens; fewer if the text does not yield as many.

        Raises:
            ValueError: If SentencePiece cannot learn from the text.
        """
        import sentencepiece

        model = io.BytesIO()
        cleaned = _Lines(lines)
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(cleaned),
                model_writer=model,
                model_type=cls.subword,
                vocab_size=vocab_size,
                hard_vocab_limit=False,
                character_coverage=1.0,
                max_sentence_length=1 << 20,
                input_sentence_size=10_000_000,
                shuffle_input_sentence=False,
                pad_id=PAD_ID,
                bos_id=BOS_ID,
                eos_id=EOS_ID,
                unk_id=UNK_ID,
                minloglevel=2,
            )
        except RuntimeError as error:
            if cleaned.error:
                raise cleaned.error from None
            raise ValueError(
                f"No vocabulary of {vocab_size} tokens can be learned from this text: "
                f"{error}. Try another --vocab_size."
            ) from error
        return cls(model.getvalue())

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Splits sentences into tokens."""
        return self._tokenizer.tokenize(clean(text))

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins tokens into sentences."""
        return self._tokenizer.detokenize(ids)

    def pieces(self) -> list[str]:
        """Returns the text of every token, by id."""
        ids = tf.range(self.vocab_size)
        return [
            piece.decode("utf-8", "replace")
            for piece in self._tokenizer.id_to_string(ids).numpy()
        ]


class UnigramTokenizer(SentencePieceTokenizer):
    """SentencePiece's unigram model."""

    subword = "unigram"


class WordPieceTokenizer(Tokenizer):
    """Word pieces: the longest match in the vocabulary, word by word.

    Words are what white space divides; punctuation stays with its word, so that
    `detokenize` gives the text back but for runs of spaces.

    Args:
        model: The vocabulary, one piece a line, UTF-8; pieces that continue a word
            begin with "##".
    """

    subword = "wordpiece"
    # No text holds these: control characters are cleaned away.
    _SPECIAL = ("\x01pad", "\x01bos", "\x01eos", "\x01unk")

    def __init__(self, model: bytes) -> None:
        super().__init__(model)
        self._pieces = model.decode("utf-8").split("\n")
        self.vocab_size = len(self._pieces)
        self._tokenizer = tf_text.FastWordpieceTokenizer(
            self._pieces,
            unknown_token=self._SPECIAL[UNK_ID],
            max_bytes_per_word=1 << 20,
            no_pretokenization=True,
            support_detokenization=True,
        )

    @classmethod
    def train(cls, lines: Iterable[str], vocab_size: int) -> "WordPieceTokenizer":
        """Learns the word pieces of some text.

        Args:
            lines: Sentences.
            vocab_size: The number of tokens to aim for; the algorithm, which prunes
                by frequency, ends near it.

        Raises:
            ValueError: If the text has more characters than the vocabulary has room.
        """
        import keras_nlp

        counts = collections.Counter(
            word for line in _Lines(lines) for word in line.split()
        )
        characters = len({character for word in counts for character in word})
        if not counts or vocab_size < characters + len(cls._SPECIAL):
            raise ValueError(
                f"No vocabulary of {vocab_size} tokens can be learned from this text: "
                f"it has {characters} characters. Try another --vocab_size."
            )
        # The learner's time grows with the number of distinct words, most of which
        # occur once or twice in a large corpus and hardly sway it.
        frequent = counts.most_common(_MOST_DISTINCT_WORDS)
        words = tf.data.Dataset.from_generator(
            lambda: ([word] * count for word, count in frequent),
            output_signature=tf.TensorSpec([None], tf.string),
        ).map(lambda words: tf_text.normalize_utf8(words, "NFKC"))
        pieces = keras_nlp.tokenizers.compute_word_piece_vocabulary(
            words,
            vocabulary_size=vocab_size,
            lowercase=False,
            strip_accents=False,
            split=False,
            reserved_tokens=list(cls._SPECIAL),
        )
        return cls("\n".join(pieces).encode("utf-8"))

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Splits sentences into tokens."""
        ids = self._tokenizer.tokenize(_split_words(text))
        # [batch, (words), (pieces)] -> [batch, (tokens)]
        return tf.cast(ids.merge_dims(1, 2), tf.int32)

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins tokens into sentences."""
        text = self._tokenizer.detokenize(ids)
        # As SentencePiece shows what it has no token for.
        return tf.strings.regex_replace(text, self._SPECIAL[UNK_ID], "\u2047")

    def pieces(self) -> list[str]:
        """Returns the text of every token, by id."""
        return list(self._pieces)


def _split_words(text: tf.Tensor) -> tf.RaggedTensor:
    return tf.strings.split(tf_text.normalize_utf8(clean(text), "NFKC"))


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
            ValueError: If the directory holds no tokenizer.
        """
        directory = Path(directory)
        index_path = directory / cls._INDEX
        if not index_path.is_file():
            raise ValueError(f"{directory} holds no tokenizer ({cls._INDEX}).")
        index = json.loads(index_path.read_text())
        kind = TOKENIZERS[index["subword"]]
        if index["shared"]:
            tokenizer = kind((directory / "shared.model").read_bytes())
            return cls(tokenizer, tokenizer)
        return cls(
            kind((directory / "source.model").read_bytes()),
            kind((directory / "target.model").read_bytes()),
        )
