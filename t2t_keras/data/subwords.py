"""Subword tokenizers: BPE, unigram and WordPiece.

Sennrich et al. (2016) for byte-pair encoding, Kudo (2018) for the unigram model, Wu
et al. (2016) for WordPiece. SentencePiece and tensorflow-text implement them.
"""

import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import tensorflow as tf
import tensorflow_text as tf_text

from t2t_keras.data.text_normalization import (
    DEFAULT_NORMALIZATION,
    normalize,
    rules,
    sentencepiece_normalizer,
)
from t2t_keras.data.tokenizer import Tokenizer, clean, normalized_counts
from t2t_keras.errors import UserError
from t2t_keras.plurals import counted
from t2t_keras.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

_MAX_DISTINCT_WORDS = 100_000
"""Number of most frequent words that the WordPiece vocabulary is learned from."""

_MAX_WORDS = 10_000_000
"""Maximum number of running words that the WordPiece vocabulary is learned from."""

_CHUNK_WORDS = 8192
"""Number of words that are normalized at once."""

_UNUSED = 5
"""Type of SentencePiece pieces that text is never split into."""

_LANGUAGE_TOKEN = " ?(>>[^<>]+<<)"
"""Regular expression of a token such as >>fra<< at the beginning of a sentence."""


class SentencePieceTokenizer(Tokenizer):
    """SentencePiece tokenizer with a byte-pair encoding model.

    Models with unused pieces come from Marian and OPUS-MT, where SentencePiece splits
    the text and a vocabulary, which may be that of both languages, numbers the pieces.
    So does this tokenizer: text that SentencePiece does not know has the id of the
    unused piece with that text, if there is one. A language token at the beginning of a
    sentence, such as >>fra<<, is one token.

    Args:
        model: Serialized SentencePiece model with the special ids of
            `t2t_keras.special_tokens`.

    Attributes:
        has_unused_pieces: Whether the model has unused pieces.
    """

    subword = "bpe"

    def __init__(self, model: bytes) -> None:
        super().__init__(model)
        self.has_unused_pieces = _has_unused_pieces(model)
        self.module = tf_text.SentencepieceTokenizer(
            model=model, out_type=tf.string if self.has_unused_pieces else tf.int32
        )
        self.vocab_size = int(self.module.vocab_size())

    @property
    def normalization(self) -> str:  # type: ignore[override]
        """Name of the model's normalization."""
        return parse_model(self.model).normalizer_spec.name

    def with_normalization(self, name: str) -> Self:
        """Returns a tokenizer with the same vocabulary and another normalization."""
        return type(self)(_with_rules(self.model, name))

    @staticmethod
    def normalized_words(words: Iterable[str], name: str) -> Iterator[str]:
        """Normalizes words with SentencePiece's rules."""
        return map(sentencepiece_normalizer(name).normalize, words)

    @classmethod
    def learn(
        cls,
        word_counts: Mapping[str, int],
        vocab_size: int,
        normalization: str = DEFAULT_NORMALIZATION,
        tags: Sequence[str] = (),
    ) -> Self:
        """Learns a vocabulary with SentencePiece."""
        import sentencepiece

        model = io.BytesIO()
        # The order of the words decides between equal scores of the unigram model.
        by_count = sorted(word_counts.items(), key=lambda item: (-item[1], item[0]))
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=(f"{word}\t{count}" for word, count in by_count),
                input_format="tsv",
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
                user_defined_symbols=list(tags),
                minloglevel=2,
            )
        except RuntimeError as error:
            characters = set(itertools.chain.from_iterable(word_counts))
            message = _training_error(vocab_size, error, characters)
            raise UserError(message) from error
        learned = parse_model(model.getvalue())
        # The format of the input would be stored as a setting of the vocabulary.
        learned.trainer_spec.ClearField("input_format")
        serialized = learned.SerializeToString(deterministic=True)
        if normalization == "identity":
            serialized = _with_rules(serialized, normalization)
        return cls(serialized)

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Splits sentences into tokens."""
        text = clean(text)
        if not self.has_unused_pieces:
            return self.module.tokenize(text)
        has_language = tf.strings.regex_full_match(text, f"{_LANGUAGE_TOKEN}.*")
        language = tf.strings.regex_replace(text, f"^{_LANGUAGE_TOKEN}.*$", r"\1")
        text = tf.strings.regex_replace(text, f"^{_LANGUAGE_TOKEN}", "")
        language = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(language, has_language), tf.cast(has_language, tf.int64)
        )
        pieces = tf.concat([language, self.module.tokenize(text)], axis=1)
        ids = self.module.string_to_id(pieces)
        # Text such as </s> is no special token.
        return tf.where(ids > UNK_ID, ids, UNK_ID)

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins tokens into sentences."""
        return self.module.detokenize(ids)

    def pieces(self) -> list[str]:
        """Returns the text of every token, by id."""
        with tf.init_scope():  # Gives values even while a graph is being built.
            pieces = self.module.id_to_string(tf.range(self.vocab_size)).numpy()
        return [piece.decode("utf-8", "replace") for piece in pieces]

    def starts_word(self, piece: str) -> bool:
        """Returns whether a token starts with SentencePiece's space marker."""
        return piece.startswith("\u2581")


def parse_model(model: bytes) -> Any:
    """Returns the protocol buffer of a serialized SentencePiece model."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    return proto


def _has_unused_pieces(model: bytes) -> bool:
    # Field 3, type, has the value 5. Most models are not parsed, which takes a while.
    is_possible = bytes([3 << 3, _UNUSED]) in model
    return is_possible and any(p.type == _UNUSED for p in parse_model(model).pieces)


def _with_rules(model: bytes, normalization: str) -> bytes:
    proto = parse_model(model)
    proto.normalizer_spec.name = normalization
    proto.normalizer_spec.precompiled_charsmap = rules(normalization)
    return proto.SerializeToString(deterministic=True)


def _training_error(vocab_size: int, error: RuntimeError, characters: set[str]) -> str:
    """Returns a message in terms of our flags for a failed training."""
    if not characters:
        return "No vocabulary can be learned: the training files contain no text."
    # The special tokens and SentencePiece's space marker need an id, too.
    minimum = len(characters) + 5
    if vocab_size < minimum:
        return (
            f"A vocabulary of {vocab_size} tokens is too small for this text and its "
            f"{counted(len(characters), 'different character')}. Set --vocab_size to "
            f"at least {minimum}."
        )
    return (
        f"No vocabulary of {vocab_size} tokens can be learned from this text: {error}. "
        "Try another --vocab_size."
    )


class UnigramTokenizer(SentencePieceTokenizer):
    """SentencePiece tokenizer with a unigram model."""

    subword = "unigram"


class WordPieceTokenizer(Tokenizer):
    """WordPiece tokenizer: longest match in the vocabulary, word by word.

    Words are separated by white space, and punctuation stays attached to its word.
    `detokenize` therefore restores the text, except for runs of spaces and words that
    start with "##".

    Args:
        model: The vocabulary in UTF-8, one piece per line. Pieces that continue a word
            start with "##". The first line is the padding token, followed by a space
            and the name of the normalization unless that is "nfkc".
    """

    subword = "wordpiece"
    # Cleaned text never contains these, because control characters are removed.
    _SPECIAL = ("\x01pad", "\x01bos", "\x01eos", "\x01unk")
    # Normalization of vocabularies that do not name one (written by old versions).
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
    def _from_pieces(cls, pieces: Sequence[str], normalization: str) -> Self:
        """Creates a tokenizer from pieces, special tokens first."""
        padding = cls._SPECIAL[PAD_ID]
        if normalization != cls._UNNAMED:
            padding += f" {normalization}"
        return cls("\n".join([padding, *pieces[1:]]).encode("utf-8"))

    def with_normalization(self, name: str) -> Self:
        """Returns a tokenizer with the same vocabulary and another normalization."""
        return self._from_pieces(self._pieces, name)

    @staticmethod
    def normalized_words(words: Iterable[str], name: str) -> Iterator[str]:
        """Normalizes words in the same way as the graph."""
        remaining = iter(words)
        while chunk := list(itertools.islice(remaining, _CHUNK_WORDS)):
            for word in normalize(tf.constant(chunk), name).numpy():
                yield word.decode("utf-8")

    @classmethod
    def learn(
        cls,
        word_counts: Mapping[str, int],
        vocab_size: int,
        normalization: str = DEFAULT_NORMALIZATION,
        tags: Sequence[str] = (),
    ) -> Self:
        """Learns a vocabulary with tensorflow-text.

        The algorithm prunes by frequency, so that the number of tokens is close to
        `vocab_size`, but not exact.
        """
        from tensorflow_text.tools.wordpiece_vocab import (
            wordpiece_tokenizer_learner_lib as learner,
        )

        counts = normalized_counts(cls, word_counts, normalization)
        characters = len({character for word in counts for character in word})
        if not counts or vocab_size < characters + len(cls._SPECIAL):
            raise UserError(
                f"No vocabulary of {vocab_size} tokens can be learned from this text: "
                f"it has {counted(characters, 'character')}. Try another --vocab_size."
            )
        # The training time grows with the number of distinct words. In a large corpus
        # most words occur once or twice and hardly change the result.
        frequent = counts.most_common(_MAX_DISTINCT_WORDS)
        # The learner ignores pieces that occur less than ten times. Only the
        # proportions of the counts matter, so scale down the counts of a large corpus
        # and scale up those of a small one.
        scale = min(10.0, _MAX_WORDS / counts.total())
        scaled = {word: round(scale * count) for word, count in frequent}
        scaled = {word: count for word, count in scaled.items() if count}
        if not scaled:
            raise UserError(
                "No word pieces can be learned from this text: no word, between white "
                "space, occurs often enough. Try --subword=unigram."
            )
        reserved = [*cls._SPECIAL, *tags]
        pieces = learner.learn(scaled, vocab_size, reserved_tokens=reserved)
        # The search for a size may end above the one wanted.
        return cls._from_pieces(pieces[:vocab_size], normalization)

    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Splits sentences into tokens."""
        words = tf.strings.split(normalize(clean(text), self.normalization))
        ids = self.module.tokenize(words)
        # [batch, (words), (pieces)] -> [batch, (tokens)]
        return tf.cast(ids.merge_dims(1, 2), tf.int32)

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins tokens into sentences."""
        text = self.module.detokenize(ids)
        # SentencePiece's replacement for unknown text.
        return tf.strings.regex_replace(text, self._SPECIAL[UNK_ID], "\u2047")

    def pieces(self) -> list[str]:
        """Returns the text of every token, by id."""
        # The pieces are displayed, also in SVG, which cannot contain the control
        # characters of _SPECIAL.
        return ["<pad>", "<s>", "</s>", "<unk>", *self._pieces[len(self._SPECIAL) :]]

    def starts_word(self, piece: str) -> bool:
        """Returns whether a token lacks the continuation prefix "##"."""
        return not piece.startswith("##")
