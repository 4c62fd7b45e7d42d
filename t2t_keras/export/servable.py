"""The exported graph: strings in, translations out, with its own weights."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.text_search import (
    NO_HYPOTHESIS,
    Sentences,
    TextSearch,
    is_translatable,
)
from t2t_keras.errors import UserError
from t2t_keras.export.row_independence import mark_rows_independent
from t2t_keras.special_tokens import PAD_ID
from t2t_keras.transformer import Transformer

WEIGHT_DTYPES = ("float32", "bfloat16", "float16")
INVALID_IDS = "invalid_ids"
"""Status of a row with ids outside the vocabulary."""

_PADDING: dict[str, str | float] = {
    "target_ids": PAD_ID,
    "source_tokens": "",
    "target_tokens": "",
    "source_words": -1,
    "target_words": -1,
    "token_scores": 0.0,
    "attention": 0.0,
}
"""Padding values of the outputs whose rows differ in length; see `signatures`."""

_TEXT = tf.TensorSpec([None], tf.string, name="text")


class TranslationServable:
    """Content of a translation model's SavedModel.

    It has its own copies of the variables: TensorFlow Serving's loader does not find
    Keras variables, and the stored dtype may be smaller than the dtype of computation.

    Args:
        models: Translation models; several form an ensemble.
        tokenizers: Tokenizers that the models were trained with.
        options: Search options. Sampling is seeded by the sentence, so that results do
            not depend on the rest of the batch.
        n_best: Number of hypotheses that signature `n_best` returns. Default all beams.
        max_input_tokens: Sentences and translations are truncated to this number of
            tokens. Default 1,024.
        weights_dtype: Dtype of the stored weights, one of `WEIGHT_DTYPES`. The models
            compute in their own dtype regardless. Default "float32".

    Raises:
        UserError: If an argument is out of range.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        tokenizers: TokenizerPair,
        options: SearchOptions,
        n_best: int | None = None,
        max_input_tokens: int = 1024,
        weights_dtype: str = "float32",
    ) -> None:
        if weights_dtype not in WEIGHT_DTYPES:
            raise UserError(
                f"weights_dtype must be one of {WEIGHT_DTYPES}. "
                f"Received: {weights_dtype!r}"
            )
        self._best, self._all = (
            TextSearch(
                models,
                tokenizers,
                dataclasses.replace(options, n_best=number),
                max_input_tokens,
            )
            for number in (1, options.beam_size if n_best is None else n_best)
        )
        self._keras_variables = [v for model in models for v in model.variables]
        # Only attributes of the module are saved.
        self._module = tf.Module()
        self._module.weights = [
            tf.Variable(
                stored_value(variable, weights_dtype),
                trainable=False,
                name=variable.path.replace("/", "."),
            )
            for variable in self._keras_variables
        ]
        self._module.tokenizers = [tokenizers.source.module, tokenizers.target.module]

    def save(self, path: str | Path) -> None:
        """Writes a SavedModel whose only custom operations are tensorflow-text's."""
        tf.saved_model.save(self._module, str(path), signatures=self.signatures())
        mark_rows_independent(path, _PADDING)

    def signatures(self) -> dict[str, Any]:
        """Returns the signatures of the SavedModel.

        `serving_default`: `text` `[batch]` strings -> `translation` `[batch]` strings,
        `score` `[batch]` float32, `status` `[batch]` strings.
        `n_best`: the same input -> `translations` and `scores` `[batch, n_best]`, and
        `status`; a score of -1e6 or less marks a missing hypothesis.
        `ids`: `source_ids` `[batch, source]` int32, padded with 0, without EOS ->
        `target_ids` `[batch, target]` of the same form, `score`, `status`.
        `align`: `text` and `translation` `[batch]` strings -> `source_tokens` and
        `target_tokens` `[batch, length]` strings; `source_words` and `target_words`
        int32, the index of each token's word, -1 for padding; `token_scores`
        `[batch, target + 1]` float32, log-probabilities, EOS last;
        `attention` `[batch, target, source]` float32, 0 for padding; `status` `[batch]`
        strings. Both sides are truncated to `max_input_tokens`; a truncated translation
        has no EOS score.
        """
        return {
            "serving_default": self._signature(self._translate, _TEXT),
            "n_best": self._signature(self._translate_n_best, _TEXT),
            "ids": self._signature(
                self._translate_ids,
                tf.TensorSpec([None, None], tf.int32, name="source_ids"),
            ),
            "align": self._signature(
                self._align, _TEXT, tf.TensorSpec([None], tf.string, name="translation")
            ),
        }

    def _signature(
        self, function: Callable[..., dict[str, tf.Tensor]], *inputs: tf.TensorSpec
    ) -> Any:
        """Traces a method into a graph that reads the servable's own weights."""

        def run(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
            mapping = [
                (variable, tf.cast(weight, variable.dtype))
                for variable, weight in zip(
                    self._keras_variables, self._module.weights, strict=True
                )
            ]
            checked = map(_with_rank, tensors, inputs)
            with keras.StatelessScope(state_mapping=mapping):
                return function(*checked)

        return tf.function(run, input_signature=inputs, autograph=False)

    def _translate(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        sentences = self._best.tokenize(text)
        texts, _, scores, status = self._search(self._best, sentences, _seeds(text))
        return {"translation": texts[:, 0], "score": scores[:, 0], "status": status}

    def _translate_n_best(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        sentences = self._all.tokenize(text)
        texts, _, scores, status = self._search(self._all, sentences, _seeds(text))
        return {"translations": texts, "scores": scores, "status": status}

    def _translate_ids(self, source_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        size = self._best.ensemble.models[0].source_embedding.vocab_size
        is_valid = tf.reduce_all((source_ids >= 0) & (source_ids < size), axis=1)
        valid = tf.where(is_valid[:, tf.newaxis], source_ids, PAD_ID)
        sentences = self._best.truncate(
            tf.RaggedTensor.from_tensor(valid, padding=PAD_ID)
        )
        seeds = _seeds(tf.strings.reduce_join(tf.as_string(valid), 1, separator=" "))
        _, ids, scores, status = self._search(self._best, sentences, seeds)
        status = tf.where(is_valid, status, INVALID_IDS)
        return {"target_ids": ids[:, 0], "score": scores[:, 0], "status": status}

    def _search(
        self, text_search: TextSearch, sentences: Sentences, seeds: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Translates the rows that hold a sentence.

        Returns:
            `[batch, n_best]` texts, `[batch, beam, length]` ids, `[batch, n_best]`
            scores and `[batch]` statuses. Rows that are not translated have empty
            texts, and ids and scores of 0.
        """
        searched = is_translatable(sentences.status)
        row_indices = tf.where(searched)[:, 0]
        ids = tf.gather(sentences.ids, row_indices)
        result = text_search.search(ids, ids[:, :0], tf.gather(seeds, row_indices))
        search_status = text_search.status_after_search(
            tf.gather(sentences.status, row_indices), result.scores
        )
        scores = result.scores[:, : text_search.options.n_best]
        texts = text_search.detokenize(result.ids)
        texts = tf.where(scores > NO_HYPOTHESIS, texts, "")
        scores = tf.where(is_translatable(search_status)[:, tf.newaxis], scores, 0.0)
        # Rows without a sentence get the padding row that follows the last result.
        row = tf.cumsum(tf.cast(searched, tf.int32)) - 1
        row = tf.where(searched, row, tf.shape(row_indices)[0])

        def expand(searched_rows: tf.Tensor) -> tf.Tensor:
            padding = [[0, 1]] + [[0, 0]] * (searched_rows.shape.rank - 1)
            return tf.gather(tf.pad(searched_rows, padding), row)

        status = tf.where(searched, expand(search_status), sentences.status)
        return expand(texts), expand(result.ids), expand(scores), status

    def _align(self, text: tf.Tensor, translation: tf.Tensor) -> dict[str, tf.Tensor]:
        text_search, tokenizers = self._best, self._best.tokenizers
        source, target, scored, status = text_search.tokenize_pairs(text, translation)
        log_probs, attention = text_search.score(source, target)
        status = text_search.status_after_scoring(status, scored, log_probs)
        is_scored = is_translatable(status)
        # Positions after a row's EOS are padding.
        scored = tf.sequence_mask(
            tf.where(is_scored, scored, 0), tf.shape(log_probs)[1]
        )
        # The slice drops only the longest rows' EOS; the mask removes the others'.
        attention = attention[:, :-1, :-1]
        _, target_size, source_size = tf.unstack(tf.shape(attention))
        # [batch, target, source]
        is_pair = (
            is_scored[:, tf.newaxis, tf.newaxis]
            & tf.sequence_mask(target.row_lengths(), target_size)[:, :, tf.newaxis]
            & tf.sequence_mask(source.row_lengths(), source_size)[:, tf.newaxis, :]
        )
        source_tokens, source_words = _tokens_and_words(tokenizers.source, source)
        target_tokens, target_words = _tokens_and_words(tokenizers.target, target)
        return {
            "source_tokens": source_tokens,
            "source_words": source_words,
            "target_tokens": target_tokens,
            "target_words": target_words,
            "token_scores": tf.where(scored, log_probs, 0.0),
            "attention": tf.where(is_pair, attention, 0.0),
            "status": status,
        }


def stored_value(variable: keras.Variable, dtype: str) -> tf.Tensor:
    """Returns a variable's value as an export stores it, floats cast to `dtype`.

    Args:
        variable: Variable of a model.
        dtype: One of `WEIGHT_DTYPES`.

    Raises:
        UserError: If a value is too large for the dtype.
    """
    value = tf.convert_to_tensor(variable.value)
    if not value.dtype.is_floating:
        return value
    smaller = tf.cast(value, dtype)
    # Values that were not finite before the cast are not the dtype's fault.
    fits = tf.math.is_finite(smaller) | ~tf.math.is_finite(value)
    if not bool(tf.reduce_all(fits)):
        raise UserError(
            f"{variable.path} has values too large for {dtype}; use bfloat16."
        )
    return smaller


def _with_rank(tensor: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    """Checks an input's rank at run time, since TensorFlow Serving does not."""
    # The placeholder hides the static shape, which would make the check a no-op.
    hidden = tf.raw_ops.PlaceholderWithDefault(input=tensor, shape=None)
    return tf.ensure_shape(hidden, spec.shape)


def _seeds(text: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.strings.to_hash_bucket_fast(text, 2**31 - 1), tf.int32)


def _tokens_and_words(
    tokenizer: Tokenizer, ids: tf.RaggedTensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the text of each token and the index of its word, padded."""
    pieces = tokenizer.pieces()
    starts = tf.constant([int(tokenizer.starts_word(piece)) for piece in pieces])
    dense = ids.to_tensor()
    is_token = tf.sequence_mask(ids.row_lengths(), tf.shape(dense)[1])
    word_starts = tf.cumsum(tf.gather(starts, dense), axis=1)
    # The first token always starts a word.
    words = word_starts - word_starts[:, :1]
    return (
        tf.where(is_token, tf.gather(tf.constant(pieces), dense), ""),
        tf.where(is_token, words, -1),
    )
