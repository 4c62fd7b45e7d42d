"""The kinds of subwords, learned and applied by well-kept libraries.

Sennrich et al. (2016) for byte-pair encoding, Kudo (2018) for the unigram model, Wu
et al. (2016) for word pieces.
"""

import collections
import io
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from t2t_keras.counted import counted
from t2t_keras.data.normalization import (
    DEFAULT_NORMALIZATION,
    normalize,
    rules,
    sentencepiece_normalizer,
)
from t2t_keras.data.tokenizer import CleanLines, Tokenizer, clean
from t2t_keras.errors import UserError
from t2t_keras.tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

_MOST_DISTINCT_WORDS = 100_000
"""How many words the word piece vocabulary is learned from, the frequent ones."""

_COUNTED_WORDS = 10_000_000
"""How many words of running text it is learned from at most."""

_CHUNK_LINES = 1024
"""How many lines are normalized at once."""


class SentencePieceTokenizer(Tokenizer):
    """SentencePiece, for byte-pair encoding and the unigram model.

    Args:
        model: A serialized SentencePiece model with this project's special ids.
    """

    subword = "bpe"

    def __init__(self, model: bytes) -> None:
        super().__init__(model)
        self.module = tf_text.SentencepieceTokenizer(model=model)
        self.vocab_size = int(self.module.vocab_size())

    @property
    def normalization(self) -> str:  # type: ignore[override]
        """What the model was told to do to text first."""
        return _parse(self.model).normalizer_spec.name

    def with_normalization(self, name: str) -> "SentencePieceTokenizer":
        """Returns a tokenizer of the same vocabulary that normalizes otherwise."""
        return type(self)(_with_rules(self.model, name))

    @staticmethod
    def normalized_lines(lines: Iterable[str], name: str) -> Iterator[str]:
        """Normalizes lines by SentencePiece's rules."""
        return map(sentencepiece_normalizer(name).normalize, lines)

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        vocab_size: int,
        normalization: str = DEFAULT_NORMALIZATION,
    ) -> "SentencePieceTokenizer":
        """Learns the subwords of some text.

        Args:
            lines: Sentences.
            vocab_size: Number of tokens; fewer if the text does not yield as many.
            normalization: One of `NORMALIZATIONS`. Default "nmt_nfkc".

        Raises:
            UserError: If SentencePiece cannot learn from the text.
        """
        import sentencepiece

        model = io.BytesIO()
        cleaned = CleanLines(lines)
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(cleaned),
                model_writer=model,
                model_type=cls.subword,
                normalization_rule_name=normalization,
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
            raise UserError(_why_not(vocab_size, error, cleaned.characters)) from error
        learned = model.getvalue()
        if normalization == "identity":
            learned = _with_rules(learned, normalization)
        return cls(learned)

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Splits sentences into tokens."""
        return self.module.tokenize(clean(text))

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins tokens into sentences."""
        return self.module.detokenize(ids)

    def pieces(self) -> list[str]:
        """Returns the text of every token, by id."""
        with tf.init_scope():  # The values are wanted while a graph is made, too.
            pieces = self.module.id_to_string(tf.range(self.vocab_size)).numpy()
        return [piece.decode("utf-8", "replace") for piece in pieces]

    def starts_word(self, piece: str) -> bool:
        """Tells whether a token begins with SentencePiece's sign for a space."""
        return piece.startswith("\u2581")


def _parse(model: bytes) -> Any:
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    return proto


def _with_rules(model: bytes, normalization: str) -> bytes:
    proto = _parse(model)
    proto.normalizer_spec.name = normalization
    proto.normalizer_spec.precompiled_charsmap = rules(normalization)
    return proto.SerializeToString(deterministic=True)


def _why_not(vocab_size: int, error: RuntimeError, characters: set[str]) -> str:
    """Says why there is no vocabulary, in the terms of our own flags."""
    if not characters:
        return "No vocabulary can be learned: there is no text in the training files."
    # Special tokens, and SentencePiece's sign for a space.
    least = len(characters - {" "}) + 5
    if vocab_size < least:
        return (
            f"A vocabulary of {vocab_size} tokens is too small for this text and its "
            f"{counted(len(characters), 'different character')}. Set --vocab_size to "
            f"at least {least}."
        )
    return (
        f"No vocabulary of {vocab_size} tokens can be learned from this text: {error}. "
        "Try another --vocab_size."
    )


class UnigramTokenizer(SentencePieceTokenizer):
    """SentencePiece's unigram model."""

    subword = "unigram"


class WordPieceTokenizer(Tokenizer):
    """Word pieces: the longest match in the vocabulary, word by word.

    Words are what white space divides; punctuation stays with its word, so that
    `detokenize` gives the text back but for runs of spaces, and words that begin
    with "##" themselves.

    Args:
        model: The vocabulary, one piece a line, UTF-8; pieces that continue a word
            begin with "##". The first is the padding token's, which also names the
            normalization after a space, unless that is NFKC.
    """

    subword = "wordpiece"
    # No text holds these: control characters are cleaned away.
    _SPECIAL = ("\x01pad", "\x01bos", "\x01eos", "\x01unk")
    # Of vocabularies from before there was a choice.
    _UNNAMED = "nfkc"

    def __init__(self, model: bytes) -> None:
        super().__init__(model)
        self._pieces = model.decode("utf-8").split("\n")
        self.vocab_size = len(self._pieces)
        self.normalization = self._pieces[0].partition(" ")[2] or self._UNNAMED
        self.module = tf_text.FastWordpieceTokenizer(
            self._pieces,
            unknown_token=self._SPECIAL[UNK_ID],
            max_bytes_per_word=1 << 20,
            no_pretokenization=True,
            support_detokenization=True,
        )

    @classmethod
    def _of(cls, pieces: Sequence[str], normalization: str) -> "WordPieceTokenizer":
        """Makes a tokenizer of pieces, the special ones first."""
        padding = cls._SPECIAL[PAD_ID]
        if normalization != cls._UNNAMED:
            padding += f" {normalization}"
        return cls("\n".join([padding, *pieces[1:]]).encode("utf-8"))

    def with_normalization(self, name: str) -> "WordPieceTokenizer":
        """Returns a tokenizer of the same vocabulary that normalizes otherwise."""
        return self._of(self._pieces, name)

    @staticmethod
    def normalized_lines(lines: Iterable[str], name: str) -> Iterator[str]:
        """Normalizes lines as the graph does."""
        remaining = iter(lines)
        while chunk := list(itertools.islice(remaining, _CHUNK_LINES)):
            for line in normalize(tf.constant(chunk), name).numpy():
                yield line.decode("utf-8")

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        vocab_size: int,
        normalization: str = DEFAULT_NORMALIZATION,
    ) -> "WordPieceTokenizer":
        """Learns the word pieces of some text.

        Args:
            lines: Sentences.
            vocab_size: The number of tokens to aim for; the algorithm, which prunes
                by frequency, ends near it.
            normalization: One of `NORMALIZATIONS`. Default "nmt_nfkc".

        Raises:
            UserError: If the text has more characters than the vocabulary has room.
        """
        import keras_nlp

        normal = cls.normalized_lines(CleanLines(lines), normalization)
        counts = collections.Counter(word for line in normal for word in line.split())
        characters = len({character for word in counts for character in word})
        if not counts or vocab_size < characters + len(cls._SPECIAL):
            raise UserError(
                f"No vocabulary of {vocab_size} tokens can be learned from this text: "
                f"it has {counted(characters, 'character')}. Try another --vocab_size."
            )
        # The learner's time grows with the number of distinct words, most of which
        # occur once or twice in a large corpus and hardly sway it.
        frequent = counts.most_common(_MOST_DISTINCT_WORDS)
        # It takes the words one by one, and no piece that is rarer than ten: only the
        # counts' proportions matter, so a large corpus is counted as a smaller one,
        # and a small one as ten times itself.
        scale = min(10.0, _COUNTED_WORDS / counts.total())
        words = tf.data.Dataset.from_generator(
            lambda: ([word] * round(scale * count) for word, count in frequent),
            output_signature=tf.TensorSpec([None], tf.string),
        )
        pieces = keras_nlp.tokenizers.compute_word_piece_vocabulary(
            words,
            vocabulary_size=vocab_size,
            lowercase=False,
            strip_accents=False,
            split=False,
            reserved_tokens=list(cls._SPECIAL),
        )
        return cls._of(pieces, normalization)

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Splits sentences into tokens."""
        words = tf.strings.split(normalize(clean(text), self.normalization))
        ids = self.module.tokenize(words)
        # [batch, (words), (pieces)] -> [batch, (tokens)]
        return tf.cast(ids.merge_dims(1, 2), tf.int32)

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins tokens into sentences."""
        text = self.module.detokenize(ids)
        # As SentencePiece shows what it has no token for.
        return tf.strings.regex_replace(text, self._SPECIAL[UNK_ID], "\u2047")

    def pieces(self) -> list[str]:
        """Returns the text of every token, by id."""
        # They are shown, in SVG too, which may not hold the characters of _SPECIAL.
        return ["<pad>", "<s>", "</s>", "<unk>", *self._pieces[len(self._SPECIAL) :]]

    def starts_word(self, piece: str) -> bool:
        """Tells whether a token lacks the sign of a word's continuation."""
        return not piece.startswith("##")
