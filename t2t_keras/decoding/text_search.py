"""From text to translations inside the graph: what Python and an export share."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from t2t_keras.data.examples import append_eos
from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.beam_search import search
from t2t_keras.decoding.beam_search_state import Hypotheses
from t2t_keras.decoding.constraints import IMPOSSIBLE
from t2t_keras.decoding.ensemble import Ensemble
from t2t_keras.decoding.forced_decoding import TokenScores, score_tokens
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.translation_status import (
    EMPTY,
    INVALID,
    MODEL_ERROR,
    NOT_FOUND,
    OK,
    TOO_LONG,
)
from t2t_keras.errors import UserError
from t2t_keras.special_tokens import PAD_ID
from t2t_keras.transformer import Transformer

NO_HYPOTHESIS = IMPOSSIBLE / 1000
"""Scores below it are those of no hypothesis: a beam fills up with impossible ones."""


class Sentences(NamedTuple):
    """Tokenized text.

    Attributes:
        ids: `[batch, (tokens)]` int32, without end, cut to the greatest length; none
            for what is not to be translated.
        status: `[batch]` strings: `OK`, `EMPTY`, `TOO_LONG` or `INVALID`.
    """

    ids: tf.RaggedTensor
    status: tf.Tensor


class Pairs(NamedTuple):
    """Tokenized sentences and their translations, which are to be scored.

    Attributes:
        source: `[batch, (tokens)]` int32, as of `Sentences`.
        target: Likewise.
        scored: `[batch]` int32, how many target tokens are scored: all and the end;
            without the end where the translation was cut; none where either side is no
            UTF-8, or both are empty.
        status: `[batch]` strings: `OK`; `EMPTY` if both sides are; `TOO_LONG` if either
            was cut; `INVALID`.
    """

    source: tf.RaggedTensor
    target: tf.RaggedTensor
    scored: tf.Tensor
    status: tf.Tensor


def is_searched(status: tf.Tensor) -> tf.Tensor:
    """Returns which sentences to translate."""
    return (status == OK) | (status == TOO_LONG)


class TextSearch:
    """The steps of translating text. All of them run eagerly and in a `tf.function`.

    Args:
        models: The models, an ensemble if there are several.
        tokenizers: The tokenizers that they were trained with.
        options: How to search.
        max_input_tokens: A longer sentence, translation or prefix is cut after this
            many tokens.

    Raises:
        UserError: If no output can be as long as `options` ask for.
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
        longest = max_input_tokens + options.max_extra_length
        if options.min_length > longest:
            raise UserError(
                f"min_length is at most max_input_tokens ({max_input_tokens:,}) and "
                f"max_extra_length ({options.max_extra_length:,}) together, which is "
                f"the greatest length of an output. Received: {options.min_length:,}"
            )

    def read(self, text: tf.Tensor) -> Sentences:
        """Tokenizes sentences to translate.

        Args:
            text: `[batch]` strings.
        """
        return self._read(self.tokenizers.source, text)

    def read_translations(self, text: tf.Tensor) -> Sentences:
        """Tokenizes translations, or what translations begin with.

        Args:
            text: `[batch]` strings.
        """
        return self._read(self.tokenizers.target, text)

    def _read(self, tokenizer: Tokenizer, text: tf.Tensor) -> Sentences:
        replaced = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
        is_valid = replaced == text
        ids = tokenizer.tokenize(tf.where(is_valid, text, ""))
        ids, status = self.limit(tf.cast(ids, tf.int32))
        return Sentences(ids, tf.where(is_valid, status, INVALID))

    def with_prefix(self, status: tf.Tensor, prefix_status: tf.Tensor) -> tf.Tensor:
        """Returns the status of sentences with what their translations begin with.

        Args:
            status: `[batch]` strings, theirs.
            prefix_status: `[batch]` strings, that of the prefixes.
        """
        is_cut = (status == OK) & (prefix_status == TOO_LONG)
        status = tf.where(is_cut, TOO_LONG, status)
        return tf.where(prefix_status == INVALID, INVALID, status)

    def read_pairs(self, text: tf.Tensor, translations: tf.Tensor) -> Pairs:
        """Tokenizes sentences and their translations.

        Args:
            text: `[batch]` strings.
            translations: Likewise.
        """
        source, target = self.read(text), self.read_translations(translations)

        def either(status: str) -> tf.Tensor:
            return (source.status == status) | (target.status == status)

        is_empty = (source.status == EMPTY) & (target.status == EMPTY)
        status = tf.where(is_empty, EMPTY, OK)
        status = tf.where(either(TOO_LONG), TOO_LONG, status)
        status = tf.where(either(INVALID), INVALID, status)
        is_whole = tf.cast(target.status != TOO_LONG, tf.int32)
        scored = tf.cast(target.ids.row_lengths(), tf.int32) + is_whole
        scored = tf.where(is_searched(status), scored, 0)
        return Pairs(source.ids, target.ids, scored, status)

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
        self,
        ids: tf.RaggedTensor,
        prefix: tf.RaggedTensor,
        row_seeds: tf.Tensor,
        with_token_scores: bool = False,
    ) -> Hypotheses:
        """Searches for translations; for use inside a `tf.function`.

        Args:
            ids: `[rows, (tokens)]` int32, without end.
            prefix: `[rows, (tokens)]` int32, what the translations begin with.
            row_seeds: `[rows]` int32, what random draws depend on.
            with_token_scores: As of `search`. Default False.
        """
        return search(
            self.ensemble,
            append_eos(ids).to_tensor(),
            self.options,
            prefix.to_tensor(),
            row_seeds,
            with_token_scores,
        )

    def outcome(self, status: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        """Returns the status of sentences after the search.

        Args:
            status: `[rows]` strings, as of `read`.
            scores: `[rows, n]` float32, as of `search`.

        Returns:
            `[rows]` strings: the same, but `MODEL_ERROR` or `NOT_FOUND` where there is
            no translation.
        """
        best = scores[:, 0]
        status = tf.where(best > NO_HYPOTHESIS, status, NOT_FOUND)
        return tf.where(tf.math.is_nan(best), MODEL_ERROR, status)

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

    def scored_outcome(
        self, status: tf.Tensor, scored: tf.Tensor, log_probs: tf.Tensor
    ) -> tf.Tensor:
        """Returns the status of pairs after scoring.

        Args:
            status: `[rows]` strings, as of `read_pairs`.
            scored: `[rows]` int32, likewise.
            log_probs: `[rows, target]` float32, as of `score`.

        Returns:
            `[rows]` strings: the same, but `MODEL_ERROR` where scores are not finite.
        """
        is_scored = tf.sequence_mask(scored, tf.shape(log_probs)[1])
        is_finite = tf.math.is_finite(log_probs) | ~is_scored
        return tf.where(tf.reduce_all(is_finite, axis=1), status, MODEL_ERROR)
