"""From sentences to translations, in batches of similar length, in order."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.constraints import IMPOSSIBLE
from t2t_keras.decoding.options import SearchOptions
from t2t_keras.decoding.scoring import TokenScores, align_words
from t2t_keras.decoding.search import Hypotheses
from t2t_keras.decoding.text_search import EMPTY, TOO_LONG, TextSearch
from t2t_keras.transformer import Transformer

_Found = tuple[np.ndarray, np.ndarray]
"""Texts and scores of a batch's hypotheses."""


class Translation(NamedTuple):
    """One hypothesis for one sentence.

    Attributes:
        text: The translation; empty for an empty sentence.
        score: Log-probability over length penalty; 0 for an empty sentence.
        status: As of `text_search`.
    """

    text: str
    score: float
    status: str = "ok"


class Details(NamedTuple):
    """A translation, token by token.

    Attributes:
        tokens: The text of its tokens.
        token_scores: The log-probability of each, the end's last.
        alignment: For each of its words the word of the source that it comes from:
            pairs of source and target, numbered from 0.
    """

    tokens: list[str]
    token_scores: list[float]
    alignment: list[tuple[int, int]]


class Translator:
    """Translates sentences by beam search, or draws translations.

    Args:
        models: The trained model, or several of one vocabulary: an ensemble.
        tokenizers: The tokenizers that they were trained with.
        options: How to search. Default `SearchOptions()`.
        batch_tokens: The most source positions of a batch, padding included.
            Default 2,048.
        max_input_tokens: A longer sentence is cut after this many tokens. Default
            1,024.
        concurrent_batches: How many batches are searched at once. Default 1.

    Attributes:
        truncated: Number of sentences that were cut so far.
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
        single = isinstance(models, Transformer)
        self._text_search = text_search = TextSearch(
            [models] if single else models,  # type: ignore[list-item]
            tokenizers,
            self.options,
            max_input_tokens,
        )
        ids = tf.RaggedTensorSpec([None, None], tf.int32, row_splits_dtype=tf.int64)

        @tf.function(
            input_signature=[ids, ids, tf.TensorSpec([None], tf.int32)], autograph=False
        )
        def search_batch(
            source: tf.RaggedTensor, prefix: tf.RaggedTensor, row_seeds: tf.Tensor
        ) -> Hypotheses:
            return text_search.search(source, prefix, row_seeds)

        @tf.function(input_signature=[ids, ids], autograph=False)
        def score_batch(
            source: tf.RaggedTensor, target: tf.RaggedTensor
        ) -> TokenScores:
            return text_search.score(source, target)

        self._search = search_batch
        self._score = score_batch

    def translate(
        self, sentences: Iterable[str], prefixes: Iterable[str] | None = None
    ) -> list[list[Translation]]:
        """Translates sentences together; results are in their order.

        Args:
            sentences: Any number of sentences, empty ones among them.
            prefixes: What each translation is to begin with. Default nothing.

        Returns:
            For each sentence its hypotheses, the best first: at most `n_best`, and
            at least one.
        """
        sentences = list(sentences)
        results = [[Translation("", 0.0, EMPTY)] for _ in sentences]
        if not sentences:
            return results
        ids, status = self._text_search.read(tf.constant(sentences))
        stated = [value.decode() for value in status.numpy()]
        self.truncated += stated.count(TOO_LONG)
        begun = self._target_ids(prefixes, len(sentences))
        # A sentence draws the same whatever else is translated with it.
        seeds = np.arange(self._drawn, self._drawn + len(sentences), dtype=np.int32)
        self._drawn += len(sentences)

        def search_batch(batch: np.ndarray) -> _Found:
            found = self._search(
                tf.gather(ids, batch),
                tf.gather(begun, batch),
                tf.constant(seeds[batch]),
            )
            texts = self._text_search.texts(found.ids).numpy()
            return texts, found.scores[:, : self.options.n_best].numpy()

        batches = list(self._batches(ids.row_lengths().numpy()))
        for batch, found in zip(batches, self._map(search_batch, batches), strict=True):
            for index, row_texts, row_scores in zip(batch, *found, strict=True):
                results[index] = [
                    Translation(
                        text.decode("utf-8", "replace"), float(score), stated[index]
                    )
                    for text, score in zip(row_texts, row_scores, strict=True)
                    # A beam that found fewer hypotheses fills up with impossible ones.
                    if score > IMPOSSIBLE / 1000
                ]
        return results

    def _map(
        self, search: Callable[[np.ndarray], _Found], batches: Sequence[np.ndarray]
    ) -> Iterator[_Found]:
        """Yields what a search finds for each batch, several at once."""
        pool = ThreadPoolExecutor(self._concurrent_batches)
        try:
            yield from pool.map(search, batches)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _target_ids(
        self, sentences: Iterable[str] | None, number: int
    ) -> tf.RaggedTensor:
        sentences = [""] * number if sentences is None else list(sentences)
        if len(sentences) != number:
            raise ValueError(
                "There must be as many target as source sentences. Received: "
                f"{len(sentences)} and {number}"
            )
        ids = self._tokenizers.target.tokenize(tf.constant(sentences))
        return tf.cast(ids, tf.int32)

    def _batches(self, lengths: np.ndarray) -> Iterator[np.ndarray]:
        """Yields the places of sentences of similar length, longest first."""
        order = np.argsort(lengths, kind="stable")[::-1]
        order = order[lengths[order] > 0]
        start = 0
        while start < len(order):
            rows = max(1, self._batch_tokens // int(lengths[order[start]] + 1))
            yield order[start : start + rows]
            start += rows

    def details(
        self, sentences: Sequence[str], translations: Sequence[str]
    ) -> list[Details]:
        """Looks at given translations token by token.

        Args:
            sentences: Sources, cut like those of `translate`.
            translations: A translation of each: found ones, or a user's own.

        Returns:
            What there is to see of each; nothing where the source is empty.

        Raises:
            ValueError: If there are not as many of both.
        """
        results = [Details([], [], []) for _ in sentences]
        if not sentences:
            return results
        source = self._text_search.read(tf.constant(list(sentences))).ids
        target = self._target_ids(translations, len(sentences))
        lengths = source.row_lengths().numpy()
        pieces = self._tokenizers.source.pieces(), self._tokenizers.target.pieces()
        # Either side may be the longer one.
        sizes = np.maximum(lengths, target.row_lengths().numpy())
        for batch in self._batches(np.where(lengths > 0, sizes, 0)):
            source_ids, target_ids = (tf.gather(x, batch) for x in (source, target))
            log_probs, attention = self._score(source_ids, target_ids)
            rows = zip(
                batch,
                source_ids.to_list(),
                target_ids.to_list(),
                log_probs.numpy(),
                attention.numpy(),
                strict=True,
            )
            for index, row_source, row_target, row_scores, row_attention in rows:
                heard = [pieces[0][i] for i in row_source]
                said = [pieces[1][i] for i in row_target]
                results[index] = Details(
                    said,
                    row_scores[: len(said) + 1].tolist(),
                    align_words(
                        row_attention[: len(said), : len(heard)],
                        self._tokenizers.source.words(heard),
                        self._tokenizers.target.words(said),
                    ),
                )
        return results

    def stream(
        self, sentences: Iterable[str], window: int = 2048, wait: bool = False
    ) -> Iterator[list[Translation]]:
        """Translates sentences as they come.

        Whatever has arrived is translated together, so that a slow source is
        answered line by line and a fast one in sorted batches.

        Args:
            sentences: An iterable that may block.
            window: The most sentences to hold back. Default 2,048.
            wait: Whether to wait for a whole window, so that batches depend on the
                sentences alone and not on when they come. Default False.

        Yields:
            The hypotheses of each sentence, in order.

        Raises:
            Exception: What the iterable raises, after the sentences before it.
        """
        for pending in windows(sentences, window, wait):
            yield from self.translate(pending)


def windows(items: Iterable[str], size: int, wait: bool = False) -> Iterator[list[str]]:
    """Groups items as they come, without making any wait for one that has not come.

    Args:
        items: An iterable that may block.
        size: The most items of a group.
        wait: Whether to wait until a group is full. Default False.

    Raises:
        Exception: What the iterable raises, after the items before it.
    """
    arrived: queue.Queue[str | None] = queue.Queue(maxsize=size)
    failure: list[Exception] = []

    def read() -> None:
        try:
            for item in items:
                arrived.put(item)
        except Exception as error:
            failure.append(error)
        arrived.put(None)

    threading.Thread(target=read, daemon=True).start()
    ended = False
    while not ended:
        pending: list[str] = []
        item = arrived.get()
        while item is not None:
            pending.append(item)
            if len(pending) == size:
                break
            try:
                item = arrived.get(block=wait)
            except queue.Empty:
                break
        ended = item is None
        if pending:
            yield pending
    if failure:
        raise failure[0]
