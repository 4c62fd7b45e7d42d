"""Searches and scores many sentences in batches of similar length."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.decoding.beam_search_state import Hypotheses
from t2t_keras.decoding.forced_decoding import TokenScores
from t2t_keras.decoding.text_search import Sentences, TextSearch, is_translatable
from t2t_keras.decoding.translations import Hypothesis, Translation, read_hypotheses


class ScoredPair(NamedTuple):
    """A sentence and a translation with the model's scores.

    Attributes:
        number: The index of the pair.
        source: Source ids without the end token.
        target: Target ids without the end token.
        log_probs: `[target]` float32, log-probabilities of the target tokens, the end
            token and padding.
        attention: `[target, source]` float32 attention weights, with end tokens and
            padding.
    """

    number: int
    source: list[int]
    target: list[int]
    log_probs: np.ndarray
    attention: np.ndarray


class BatchedSearch:
    """Runs the compiled functions of a `TextSearch` in batches of similar length.

    Args:
        text_search: The search in the graph.
        batch_tokens: Maximum number of source tokens in a batch, padding included.
        concurrent_batches: Number of batches to search concurrently.
    """

    def __init__(
        self, text_search: TextSearch, batch_tokens: int, concurrent_batches: int
    ) -> None:
        self._text_search = text_search
        self._batch_tokens = batch_tokens
        self._concurrent_batches = concurrent_batches
        ids = tf.RaggedTensorSpec([None, None], tf.int32, row_splits_dtype=tf.int64)

        def compiled_search(with_token_scores: bool) -> Callable[..., Hypotheses]:
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

        # Each function is traced at its first call.
        self.search_batch = compiled_search(with_token_scores=False)
        self.search_batch_with_token_scores = compiled_search(with_token_scores=True)
        self.score_batch = score_batch

    def search(
        self,
        sentences: Sentences,
        prefix: tf.RaggedTensor,
        row_seeds: np.ndarray,
        with_token_scores: bool,
    ) -> list[list[Hypothesis]]:
        """Searches for translations of all sentences that can be translated.

        Args:
            sentences: The tokenized sentences.
            prefix: `[sentences, (tokens)]` int32, the forced prefixes.
            row_seeds: `[sentences]` int32, the random seeds.
            with_token_scores: Whether to return the log-probability of each token.

        Returns:
            The hypotheses of each sentence, at least one; if there is no translation,
            the status of the only one says why.
        """
        ids, status = sentences
        search = self.search_batch
        if with_token_scores:
            search = self.search_batch_with_token_scores

        def search_batch(batch: np.ndarray) -> list[list[Hypothesis]]:
            found = search(
                tf.gather(ids, batch),
                tf.gather(prefix, batch),
                tf.constant(row_seeds[batch]),
            )
            statuses = self._text_search.status_after_search(
                tf.gather(status, batch), found.scores
            )
            texts = self._text_search.detokenize(found.ids)
            return read_hypotheses(found, texts.numpy(), statuses.numpy())

        results = [
            [Hypothesis(Translation("", None, value.decode()))]
            for value in status.numpy()
        ]
        # The prefix may be longer than the sentence.
        lengths = np.maximum(ids.row_lengths(), prefix.row_lengths())
        batches = list(self._batches(lengths, is_translatable(status).numpy()))
        for batch, rows in zip(batches, self._map(search_batch, batches), strict=True):
            for index, row in zip(batch, rows, strict=True):
                results[index] = row
        return results

    def score(
        self, source: tf.RaggedTensor, target: tf.RaggedTensor, selected: np.ndarray
    ) -> Iterator[ScoredPair]:
        """Scores given translations.

        Args:
            source: `[pairs, (tokens)]` int32, without the end token.
            target: `[pairs, (tokens)]` int32, without the end token.
            selected: `[pairs]` bool, True for the pairs to score.

        Yields:
            The selected pairs, in the order of their batches.
        """
        lengths = np.maximum(source.row_lengths(), target.row_lengths())
        for batch in self._batches(lengths, selected):
            source_ids, target_ids = (tf.gather(x, batch) for x in (source, target))
            log_probs, attention = self.score_batch(source_ids, target_ids)
            rows = zip(
                batch.tolist(),
                source_ids.to_list(),
                target_ids.to_list(),
                log_probs.numpy(),
                attention.numpy(),
                strict=True,
            )
            yield from (ScoredPair(*row) for row in rows)

    def _map(
        self,
        search: Callable[[np.ndarray], list[list[Hypothesis]]],
        batches: Sequence[np.ndarray],
    ) -> Iterator[list[list[Hypothesis]]]:
        """Yields the result of each batch in order, with concurrent searches."""
        pool = ThreadPoolExecutor(self._concurrent_batches)
        try:
            yield from pool.map(search, batches)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _batches(
        self, lengths: np.ndarray, selected: np.ndarray
    ) -> Iterator[np.ndarray]:
        """Yields indices of selected items of similar length, the longest first."""
        order = np.argsort(lengths, kind="stable")[::-1]
        order = order[selected[order]]
        start = 0
        while start < len(order):
            rows = max(1, self._batch_tokens // int(lengths[order[start]] + 1))
            yield order[start : start + rows]
            start += rows
