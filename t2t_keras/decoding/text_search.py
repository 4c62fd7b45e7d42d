"""From text to translations inside the graph: what Python and an export share."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from t2t_keras.data.examples import append_eos
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.scoring import TokenScores, score_tokens
from t2t_keras.decoding.search import Hypotheses, search
from t2t_keras.tokens import PAD_ID
from t2t_keras.transformer import Transformer

OK, EMPTY, TOO_LONG, INVALID = "ok", "empty", "too_long", "invalid_utf8"
"""What may be said of a sentence: translated; empty, and so is its translation; longer
than `max_input_tokens`, and translated up to there; no UTF-8, and not translated."""


class Sentences(NamedTuple):
    """Tokenized text.

    Attributes:
        ids: `[batch, (tokens)]` int32, without end, cut to the greatest length; none
            for what is not to be translated.
        status: `[batch]` strings: `OK`, `EMPTY`, `TOO_LONG` or `INVALID`.
    """

    ids: tf.RaggedTensor
    status: tf.Tensor


class TextSearch:
    """The steps of translating text. All of them run eagerly and in a `tf.function`.

    Args:
        models: The models, an ensemble if there are several.
        tokenizers: The tokenizers that they were trained with.
        options: How to search.
        max_input_tokens: A longer sentence is cut after this many tokens.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        tokenizers: TokenizerPair,
        options: SearchOptions,
        max_input_tokens: int,
    ) -> None:
        self.ensemble = Ensemble(models)
        self.tokenizers = tokenizers
        self.options = options
        self.max_input_tokens = max_input_tokens

    def read(self, text: tf.Tensor) -> Sentences:
        """Tokenizes sentences to translate.

        Args:
            text: `[batch]` strings.
        """
        replaced = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
        is_valid = replaced == text
        ids = self.tokenizers.source.tokenize(tf.where(is_valid, text, ""))
        ids, status = self.limit(tf.cast(ids, tf.int32))
        return Sentences(ids, tf.where(is_valid, status, INVALID))

    def limit(self, ids: tf.RaggedTensor) -> Sentences:
        """Cuts what is too long.

        Args:
            ids: `[batch, (tokens)]` int32, without end.
        """
        length = ids.row_lengths()
        status = tf.where(length > self.max_input_tokens, TOO_LONG, OK)
        status = tf.where(length == 0, EMPTY, status)
        return Sentences(ids[:, : self.max_input_tokens], status)

    def search(
        self, ids: tf.RaggedTensor, prefix: tf.RaggedTensor, row_seeds: tf.Tensor
    ) -> Hypotheses:
        """Searches for translations; for use inside a `tf.function`.

        Args:
            ids: `[rows, (tokens)]` int32, without end.
            prefix: `[rows, (tokens)]` int32, what the translations begin with.
            row_seeds: `[rows]` int32, what random draws depend on.
        """
        return search(
            self.ensemble,
            append_eos(ids).to_tensor(),
            self.options,
            prefix.to_tensor(),
            row_seeds,
        )

    def texts(self, ids: tf.Tensor) -> tf.Tensor:
        """Turns the best hypotheses into text.

        Args:
            ids: `[rows, beam, length]` int32, as of `search`.

        Returns:
            `[rows, n_best]` strings.
        """
        n_best = self.options.n_best
        # [rows, beam, length] -> [rows * n_best, length]
        flat = tf.reshape(ids[:, :n_best], [-1, tf.shape(ids)[2]])
        texts = self.tokenizers.target.detokenize(
            tf.RaggedTensor.from_tensor(flat, padding=PAD_ID)
        )
        return tf.reshape(texts, [-1, n_best])

    def score(self, source: tf.RaggedTensor, target: tf.RaggedTensor) -> TokenScores:
        """Scores given translations; for use inside a `tf.function`.

        Args:
            source: `[rows, (tokens)]` int32, without end.
            target: `[rows, (tokens)]` int32, likewise.
        """
        return score_tokens(
            self.ensemble,
            append_eos(source).to_tensor(),
            append_eos(target).to_tensor(),
        )
