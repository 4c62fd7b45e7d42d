"""The kinds of subwords, learned and applied by well-kept libraries.

Sennrich et al. (2016) for byte-pair encoding, Kudo (2018) for the unigram model, Wu
et al. (2016) for word pieces.
"""

import collections
import io
from collections.abc import Iterable

import tensorflow as tf
import tensorflow_text as tf_text

from t2t_keras.data.tokenizer import CleanLines, Tokenizer, clean
from t2t_keras.tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

_MOST_DISTINCT_WORDS = 100_000
"""How many words the word piece vocabulary is learned from, the frequent ones."""

_COUNTED_WORDS = 10_000_000
"""How many words of running text it is learned from at most."""


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
        cleaned = CleanLines(lines)
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
            raise ValueError(_why_not(vocab_size, error, cleaned.characters)) from error
        return cls(model.getvalue())

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


def _why_not(vocab_size: int, error: RuntimeError, characters: set[str]) -> str:
    """Says why there is no vocabulary, in the terms of our own flags."""
    if not characters:
        return "No vocabulary can be learned: there is no text in the training files."
    # Special tokens, and SentencePiece's sign for a space.
    least = len(characters - {" "}) + 5
    if vocab_size < least:
        return (
            f"A vocabulary of {vocab_size} tokens is too small for this text and its "
            f"{len(characters)} different characters. Set --vocab_size to at least "
            f"{least}."
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
            begin with "##".
    """

    subword = "wordpiece"
    # No text holds these: control characters are cleaned away.
    _SPECIAL = ("\x01pad", "\x01bos", "\x01eos", "\x01unk")

    def __init__(self, model: bytes) -> None:
        super().__init__(model)
        self._pieces = model.decode("utf-8").split("\n")
        self.vocab_size = len(self._pieces)
        self.module = tf_text.FastWordpieceTokenizer(
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
            word for line in CleanLines(lines) for word in line.split()
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
        # It takes the words one by one, and no piece that is rarer than ten: only the
        # counts' proportions matter, so a large corpus is counted as a smaller one,
        # and a small one as ten times itself.
        scale = min(10.0, _COUNTED_WORDS / counts.total())
        words = tf.data.Dataset.from_generator(
            lambda: ([word] * round(scale * count) for word, count in frequent),
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
        ids = self.module.tokenize(_split_words(text))
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


def _split_words(text: tf.Tensor) -> tf.RaggedTensor:
    return tf.strings.split(tf_text.normalize_utf8(clean(text), "NFKC"))
