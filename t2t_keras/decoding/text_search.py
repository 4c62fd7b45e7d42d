"""Translation of text inside the graph, shared by `Translator` and exports."""

from collections.abc import Iterable, Sequence
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
"""Lower scores mark entries without a hypothesis, with which the beam is filled up."""


class Sentences(NamedTuple):
    """Tokenized text.

    Attributes:
        ids: `[batch, (tokens)]` int32 without the end token, truncated to the maximum
            length; no ids for text that cannot be translated.
        status: `[batch]` strings: `OK`, `EMPTY`, `TOO_LONG` or `INVALID`.
    """

    ids: tf.RaggedTensor
    status: tf.Tensor


class Pairs(NamedTuple):
    """Tokenized sentences with given translations to score.

    Attributes:
        source: `[batch, (tokens)]` int32, see `Sentences.ids`.
        target: `[batch, (tokens)]` int32, see `Sentences.ids`.
        num_scored: `[batch]` int32, the number of target tokens to score: all tokens
            and the end token; without the end token if the translation is truncated;
            0 if a side is not valid UTF-8 or both sides are empty.
        status: `[batch]` strings: `OK`, `EMPTY` (both sides are empty), `TOO_LONG` (a
            side is truncated) or `INVALID`.
    """

    source: tf.RaggedTensor
    target: tf.RaggedTensor
    num_scored: tf.Tensor
    status: tf.Tensor


def is_translatable(status: tf.Tensor) -> tf.Tensor:
    """Returns which sentences can be translated, by their status."""
    return (status == OK) | (status == TOO_LONG)


def to_utf8(
    sentences: Iterable[str], targets: Iterable[str] | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Encodes sentences as tensors of UTF-8.

    Args:
        sentences: Source sentences.
        targets: A translation or prefix of each sentence; None for empty strings.

    Returns:
        Source and target sentences, `[batch]` strings each.

    Raises:
        ValueError: If their numbers differ.
    """
    source = [text.encode("utf-8", "surrogatepass") for text in sentences]
    target = [b""] * len(source)
    if targets is not None:
        target = [text.encode("utf-8", "surrogatepass") for text in targets]
    if len(source) != len(target):
        raise ValueError(
            "There must be as many target as source sentences. Received: "
            f"{len(target)} and {len(source)}"
        )
    return tf.constant(source, tf.string), tf.constant(target, tf.string)


class TextSearch:
    """The steps of translating text, which run eagerly and in a `tf.function`.

    Args:
        models: One model, or several as an ensemble.
        tokenizers: The tokenizers that they were trained with.
        options: Search options.
        max_input_tokens: Maximum number of tokens of a sentence, given translation or
            prefix; longer ones are truncated.

    Raises:
        UserError: If `options.min_length` exceeds the maximum length of an output.
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
        # Without end tokens.
        longest = options.max_length(max_input_tokens + 1) - 1
        if options.min_length > longest:
            raise UserError(
                f"min_length must be at most {longest:,}, the maximum length of an "
                f"output. Received: min_length={options.min_length}, "
                f"max_input_tokens={max_input_tokens}, "
                f"max_length_factor={options.max_length_factor:g}, "
                f"max_extra_length={options.max_extra_length}"
            )

    def tokenize(self, text: tf.Tensor) -> Sentences:
        """Tokenizes source sentences.

        Args:
            text: `[batch]` strings.
        """
        return self._tokenize(self.tokenizers.source, text)

    def tokenize_targets(self, text: tf.Tensor) -> Sentences:
        """Tokenizes given translations or prefixes.

        Args:
            text: `[batch]` strings.
        """
        return self._tokenize(self.tokenizers.target, text)

    def _tokenize(self, tokenizer: Tokenizer, text: tf.Tensor) -> Sentences:
        replaced = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
        is_valid = replaced == text
        ids = tokenizer.tokenize(tf.where(is_valid, text, ""))
        ids, status = self.truncate(tf.cast(ids, tf.int32))
        return Sentences(ids, tf.where(is_valid, status, INVALID))

    def combine_status(self, status: tf.Tensor, prefix_status: tf.Tensor) -> tf.Tensor:
        """Returns the status of sentences with forced prefixes.

        Args:
            status: `[batch]` strings, the status of the sentences.
            prefix_status: `[batch]` strings, the status of the prefixes.
        """
        is_truncated = (status == OK) & (prefix_status == TOO_LONG)
        status = tf.where(is_truncated, TOO_LONG, status)
        return tf.where(prefix_status == INVALID, INVALID, status)

    def tokenize_pairs(self, text: tf.Tensor, translations: tf.Tensor) -> Pairs:
        """Tokenizes sentences and given translations.

        Args:
            text: `[batch]` strings.
            translations: `[batch]` strings.
        """
        source, target = self.tokenize(text), self.tokenize_targets(translations)

        def either(status: str) -> tf.Tensor:
            return (source.status == status) | (target.status == status)

        is_empty = (source.status == EMPTY) & (target.status == EMPTY)
        status = tf.where(is_empty, EMPTY, OK)
        status = tf.where(either(TOO_LONG), TOO_LONG, status)
        status = tf.where(either(INVALID), INVALID, status)
        is_whole = tf.cast(target.status != TOO_LONG, tf.int32)
        num_scored = tf.cast(target.ids.row_lengths(), tf.int32) + is_whole
        num_scored = tf.where(is_translatable(status), num_scored, 0)
        return Pairs(source.ids, target.ids, num_scored, status)

    def truncate(self, ids: tf.RaggedTensor) -> Sentences:
        """Truncates sentences to the maximum length.

        Args:
            ids: `[batch, (tokens)]` int32, without the end token.
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
        """Searches for translations inside a `tf.function`.

        Args:
            ids: `[rows, (tokens)]` int32, without the end token.
            prefix: `[rows, (tokens)]` int32, the forced prefixes.
            row_seeds: `[rows]` int32, the random seed of each sentence for sampling.
            with_token_scores: Whether to return the log-probability of each token.
                Default False.
        """
        return search(
            self.ensemble,
            append_eos(ids).to_tensor(),
            self.options,
            prefix.to_tensor(),
            row_seeds,
            with_token_scores,
        )

    def status_after_search(self, status: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        """Returns the status of sentences after the search.

        Args:
            status: `[rows]` strings, the status before the search.
            scores: `[rows, n]` float32, the scores of the hypotheses.

        Returns:
            `[rows]` strings: `MODEL_ERROR` or `NOT_FOUND` where there is no
            translation, otherwise the status before the search.
        """
        best = scores[:, 0]
        status = tf.where(best > NO_HYPOTHESIS, status, NOT_FOUND)
        return tf.where(tf.math.is_nan(best), MODEL_ERROR, status)

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """Detokenizes the `n_best` best hypotheses.

        Args:
            ids: `[rows, beam, length]` int32, the ids of the hypotheses.

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
        """Scores given translations inside a `tf.function`.

        Args:
            source: `[rows, (tokens)]` int32, without the end token.
            target: `[rows, (tokens)]` int32, without the end token.
        """
        return score_tokens(
            self.ensemble,
            append_eos(source).to_tensor(),
            append_eos(target).to_tensor(),
        )

    def status_after_scoring(
        self, status: tf.Tensor, num_scored: tf.Tensor, log_probs: tf.Tensor
    ) -> tf.Tensor:
        """Returns the status of pairs after scoring.

        Args:
            status: `[rows]` strings, the status of the pairs.
            num_scored: `[rows]` int32, the number of scored tokens.
            log_probs: `[rows, target]` float32, the log-probabilities of the tokens.

        Returns:
            `[rows]` strings: `MODEL_ERROR` where a score is not finite, otherwise the
            status before scoring.
        """
        is_scored = tf.sequence_mask(num_scored, tf.shape(log_probs)[1])
        is_finite = tf.math.is_finite(log_probs) | ~is_scored
        return tf.where(tf.reduce_all(is_finite, axis=1), status, MODEL_ERROR)
