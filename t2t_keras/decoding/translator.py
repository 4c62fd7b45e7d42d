"""Translates sentences in batches of similar length, and keeps their order."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
import tensorflow as tf

from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.beam_search_state import Hypotheses
from t2t_keras.decoding.forced_decoding import TokenScores
from t2t_keras.decoding.hub_presets import Pretrained, load_preset, save_preset
from t2t_keras.decoding.input_windows import windows
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.text_search import TextSearch, is_searched
from t2t_keras.decoding.translation_details import DetailReader, Details, Scored
from t2t_keras.decoding.translation_status import BROKEN_MODEL, MODEL_ERROR, TOO_LONG
from t2t_keras.decoding.translations import Found, Translation, read_hypotheses
from t2t_keras.errors import UserError
from t2t_keras.transformer import Transformer


class Translator:
    """Translates sentences by beam search, or draws translations.

    Args:
        models: The trained model, or several of one vocabulary: an ensemble.
        tokenizers: The tokenizers that they were trained with.
        options: How to search. Default `SearchOptions()`.
        batch_tokens: Maximum number of source positions in a batch, with padding.
            Default 2,048.
        max_input_tokens: A longer sentence, prefix or given translation is cut after
            this many tokens. Default 1,024.
        concurrent_batches: Number of batches to search concurrently. Default 1.

    Attributes:
        models: The models.
        truncated: Number of sentences that were cut so far, or their prefixes.
    """

    def __init__(
        self,
        models: Transformer | Sequence[Transformer],
        tokenizers: TokenizerPair,
        options: SearchOptions | None = None,
        batch_tokens: int = 2048,
        max_input_tokens: int = 1024,
        concurrent_batches: int = 1,
    ) -> None:
        self.options = options or SearchOptions()
        self.max_input_tokens = max_input_tokens
        self.truncated = 0
        self._tokenizers = tokenizers
        self._batch_tokens = batch_tokens
        self._drawn = 0
        self._concurrent_batches = concurrent_batches
        self.models = [models] if isinstance(models, Transformer) else [*models]
        self._text_search = text_search = TextSearch(
            self.models,
            tokenizers,
            self.options,
            max_input_tokens,
        )
        ids = tf.RaggedTensorSpec([None, None], tf.int32, row_splits_dtype=tf.int64)

        def searching(with_token_scores: bool) -> Callable[..., Hypotheses]:
            def search_batch(
                source: tf.RaggedTensor, prefix: tf.RaggedTensor, row_seeds: tf.Tensor
            ) -> Hypotheses:
                return text_search.search(source, prefix, row_seeds, with_token_scores)

            return tf.function(
                search_batch,
                input_signature=[ids, ids, tf.TensorSpec([None], tf.int32)],
                autograph=False,
            )

        @tf.function(input_signature=[ids, ids], autograph=False)
        def score_batch(
            source: tf.RaggedTensor, target: tf.RaggedTensor
        ) -> TokenScores:
            return text_search.score(source, target)

        # Each is traced when it is first called.
        self._search = searching(with_token_scores=False)
        self._search_in_detail = searching(with_token_scores=True)
        self._score = score_batch

    @classmethod
    def from_preset(
        cls,
        preset: str | Path,
        options: SearchOptions | None = None,
        dtype: str | None = None,
        **arguments: Any,
    ) -> Self:
        """Opens a translator that `save_to_preset` wrote.

        Args:
            preset: A directory, "hf://user/name" (Hugging Face) or
                "kaggle://user/model/keras/variant[/version]".
            options: How to search. Default: what the preset says.
            dtype: Dtype policy of the model, such as "mixed_bfloat16". Default: the
                one that it was saved with.
            **arguments: Further arguments of `Translator`.

        Raises:
            UserError: If there is no such preset, it lacks a file, or a file is
                damaged.
            MissingExtra: If the package that fetches files of that hub is not
                installed.
        """
        found = load_preset(preset, dtype)
        arguments = {"max_input_tokens": found.max_input_tokens, **arguments}
        return cls(found.model, found.tokenizers, options or found.options, **arguments)

    def save_to_preset(self, directory: str | Path) -> None:
        """Writes all that translating needs, whole or not at all.

        `keras_hub.upload_preset("hf://user/name", directory)` publishes it.

        Args:
            directory: A directory that is new or empty.

        Raises:
            UserError: If this is an ensemble, or the directory is not empty or cannot
                be written to.
        """
        if len(self.models) != 1:
            raise UserError(
                f"A preset holds one model. This is an ensemble of {len(self.models)}."
            )
        [model] = self.models
        save_preset(
            directory,
            Pretrained(model, self._tokenizers, self.options, self.max_input_tokens),
        )

    # A string is an iterable of strings, too: the first signature goes first.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, sentences: str
    ) -> str: ...

    @overload
    def __call__(self, sentences: Iterable[str]) -> list[str]: ...

    def __call__(self, sentences: str | Iterable[str]) -> str | list[str]:
        """Returns the best translation of a sentence, or of each of several.

        `translate` also returns scores, further hypotheses, and why a translation is
        empty.

        Args:
            sentences: A sentence, or any number of them.

        Returns:
            A string for a string, else a list in the order of the sentences.

        Raises:
            FloatingPointError: If the model computes numbers that are not finite.
        """
        if isinstance(sentences, str):
            return self([sentences])[0]
        best = [row[0] for row in self.translate(sentences)]
        if any(translation.status == MODEL_ERROR for translation in best):
            raise FloatingPointError(BROKEN_MODEL)
        return [translation.text for translation in best]

    def translate(
        self, sentences: Iterable[str], prefixes: Iterable[str] | None = None
    ) -> list[list[Translation]]:
        """Translates sentences together; results are in their order.

        Args:
            sentences: Any number of sentences, empty ones among them. What is no text,
                since it holds half a surrogate pair, is not translated.
            prefixes: Text that each translation starts with. Default: none.

        Returns:
            For each sentence its hypotheses, the best first: at most `n_best`, and
            at least one, whatever becomes of it.

        Raises:
            ValueError: If there are not as many prefixes.
        """
        _, rows = self._find(sentences, prefixes, self._search)
        return [[found.translation for found in row] for row in rows]

    def translate_in_detail(
        self, sentences: Iterable[str], prefixes: Iterable[str] | None = None
    ) -> list[list[tuple[Translation, Details]]]:
        """Translates sentences, and returns details of the tokens found.

        Their scores add up to a translation's score times its length penalty.

        Args:
            sentences: As of `translate`.
            prefixes: As of `translate`.

        Returns:
            What `translate` does, each with its details.

        Raises:
            ValueError: As of `translate`.
        """
        source, rows = self._find(sentences, prefixes, self._search_in_detail)
        places = [number for number, row in enumerate(rows) for _ in row]
        found = [hypothesis for row in rows for hypothesis in row]
        if not found:
            return []
        target = tf.RaggedTensor.from_row_lengths(
            np.concatenate([each.ids for each in found]),
            [len(each.ids) for each in found],
        )
        details = [Details([], [], []) for _ in found]
        is_wanted = target.row_lengths().numpy() > 0
        for index, source_ids, target_ids, _, attention in self._looked_at(
            tf.gather(source, places), target, is_wanted
        ):
            scores = found[index].token_scores
            details[index] = self._details.read(
                source_ids, target_ids, scores, attention
            )
        of_all = zip((each.translation for each in found), details, strict=True)
        return [list(itertools.islice(of_all, len(row))) for row in rows]

    def _find(
        self,
        sentences: Iterable[str],
        prefixes: Iterable[str] | None,
        search: Callable[..., Hypotheses],
    ) -> tuple[tf.RaggedTensor, list[list[Found]]]:
        """Searches in batches; returns the sentences' ids, and what was found of each.

        Each has at least one translation, whose status tells if it is none.
        """
        text, prefix_text = _encoded(sentences, prefixes)
        ids, status = self._text_search.read(text)
        prefix = self._text_search.read_translations(prefix_text)
        status = self._text_search.with_prefix(status, prefix.status)
        stated = [value.decode() for value in status.numpy()]
        self.truncated += stated.count(TOO_LONG)
        results = [[Found(Translation("", None, value))] for value in stated]
        # A sentence draws the same whatever else is translated with it.
        seeds = np.arange(self._drawn, self._drawn + len(stated), dtype=np.int32)
        self._drawn += len(stated)

        def search_batch(batch: np.ndarray) -> list[list[Found]]:
            found = search(
                tf.gather(ids, batch),
                tf.gather(prefix.ids, batch),
                tf.constant(seeds[batch]),
            )
            outcomes = self._text_search.outcome(tf.gather(status, batch), found.scores)
            texts = self._text_search.texts(found.ids)
            return read_hypotheses(found, texts.numpy(), outcomes.numpy())

        # Either may be the longer one.
        sizes = np.maximum(ids.row_lengths(), prefix.ids.row_lengths())
        batches = list(self._batches(sizes, is_searched(status).numpy()))
        for batch, rows in zip(batches, self._map(search_batch, batches), strict=True):
            for index, row in zip(batch, rows, strict=True):
                results[index] = row
        return ids, results

    def _map(
        self,
        search: Callable[[np.ndarray], list[list[Found]]],
        batches: Sequence[np.ndarray],
    ) -> Iterator[list[list[Found]]]:
        """Yields what a search finds for each batch, several at once."""
        pool = ThreadPoolExecutor(self._concurrent_batches)
        try:
            yield from pool.map(search, batches)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _batches(
        self, sizes: np.ndarray, is_wanted: np.ndarray
    ) -> Iterator[np.ndarray]:
        """Yields the places of what is wanted, of similar size, the longest first."""
        order = np.argsort(sizes, kind="stable")[::-1]
        order = order[is_wanted[order]]
        start = 0
        while start < len(order):
            rows = max(1, self._batch_tokens // int(sizes[order[start]] + 1))
            yield order[start : start + rows]
            start += rows

    @functools.cached_property
    def _details(self) -> DetailReader:
        return DetailReader(self._tokenizers)

    def details(
        self, sentences: Sequence[str], translations: Sequence[str]
    ) -> list[Details]:
        """Looks at given translations token by token; see `score`."""
        return [scored.details for scored in self.score(sentences, translations)]

    def score(
        self, sentences: Sequence[str], translations: Sequence[str]
    ) -> list[Scored]:
        """Scores given translations, each on its own.

        A translation of an empty sentence is scored as any other: only if it is empty
        too is there nothing to score.

        Args:
            sentences: Sources, cut like those of `translate`.
            translations: A translation of each, cut likewise: its end is not scored
                then.

        Returns:
            The details and status of each translation.

        Raises:
            ValueError: If there are not as many of both.
        """
        text, target_text = _encoded(sentences, translations)
        source, target, scored, status = self._text_search.read_pairs(text, target_text)
        results = [Scored(status=value.decode()) for value in status.numpy()]
        counts = scored.numpy()
        for index, source_ids, target_ids, log_probs, attention in self._looked_at(
            source, target, counts > 0
        ):
            scores = log_probs[: counts[index]]
            if not np.isfinite(scores).all():
                results[index] = Scored(status=MODEL_ERROR)
                continue
            details = self._details.read(source_ids, target_ids, scores, attention)
            results[index] = results[index]._replace(details=details)
        return results

    def _looked_at(
        self, source: tf.RaggedTensor, target: tf.RaggedTensor, is_wanted: np.ndarray
    ) -> Iterator[tuple[int, list[int], list[int], np.ndarray, np.ndarray]]:
        """Yields place, ids of both sides, log-probabilities and attention of pairs."""
        sizes = np.maximum(source.row_lengths(), target.row_lengths())
        for batch in self._batches(sizes, is_wanted):
            source_ids, target_ids = (tf.gather(x, batch) for x in (source, target))
            log_probs, attention = self._score(source_ids, target_ids)
            yield from zip(
                batch.tolist(),
                source_ids.to_list(),
                target_ids.to_list(),
                log_probs.numpy(),
                attention.numpy(),
                strict=True,
            )

    def stream(
        self, sentences: Iterable[str], window: int = 2048, wait: bool = False
    ) -> Iterator[list[Translation]]:
        """Translates sentences as they arrive.

        Whatever has arrived is translated together, so that a slow source is
        answered line by line and a fast one in sorted batches.

        Args:
            sentences: An iterable that may block.
            window: Maximum number of sentences to buffer. Default 2,048.
            wait: Whether to wait for a whole window, so that batches depend on the
                sentences alone and not on when they come. Default False.

        Yields:
            The hypotheses of each sentence, in order.

        Raises:
            Exception: What the iterable raises, after the sentences before it.
        """
        for pending in windows(sentences, window, wait):
            yield from self.translate(pending)


def _encoded(
    sentences: Iterable[str], others: Iterable[str] | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns texts and as many others, by default empty ones, as UTF-8.

    Raises:
        ValueError: If there are not as many of both.
    """
    first = [text.encode("utf-8", "surrogatepass") for text in sentences]
    second = [b""] * len(first)
    if others is not None:
        second = [text.encode("utf-8", "surrogatepass") for text in others]
    if len(first) != len(second):
        raise ValueError(
            "There must be as many target as source sentences. Received: "
            f"{len(second)} and {len(first)}"
        )
    return tf.constant(first, tf.string), tf.constant(second, tf.string)
