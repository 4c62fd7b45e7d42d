"""From sentences to translations, in batches of similar length, in order."""

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.data.examples import append_eos
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.decoding.search import Hypotheses, beam_search
from t2t_keras.transformer import Transformer


class Translation(NamedTuple):
    """One hypothesis for one sentence.

    Attributes:
        text: The translation; empty for an empty sentence.
        score: Log-probability over length penalty; 0 for an empty sentence.
    """

    text: str
    score: float


class Translator:
    """Translates sentences by beam search.

    Args:
        model: The trained model.
        tokenizers: The tokenizers that it was trained with.
        beam_size: Number of beams; 1 is greedy search. Default 4.
        length_penalty: Exponent of the length penalty. Default 0.6.
        max_extra_length: How many tokens longer than its source an output may be.
            Default 50.
        n_best: Number of hypotheses for each sentence. Default 1.
        batch_tokens: The most source positions of a batch, padding included.
            Default 2,048.
        max_input_tokens: A longer sentence is cut after this many tokens. Default
            1,024.

    Attributes:
        truncated: Number of sentences that were cut so far.

    Raises:
        ValueError: If an argument is out of its range.
    """

    def __init__(
        self,
        model: Transformer,
        tokenizers: TokenizerPair,
        beam_size: int = 4,
        length_penalty: float = 0.6,
        max_extra_length: int = 50,
        n_best: int = 1,
        batch_tokens: int = 2048,
        max_input_tokens: int = 1024,
    ) -> None:
        for name, value, least in (
            ("beam_size", beam_size, 1),
            ("n_best", n_best, 1),
            ("length_penalty", length_penalty, 0),
            ("max_extra_length", max_extra_length, 1),
        ):
            if value < least:
                raise ValueError(f"{name} is at least {least}. Received: {value}")
        if n_best > beam_size:
            raise ValueError(
                "There are no more hypotheses than beams. Received: "
                f"n_best={n_best}, beam_size={beam_size}"
            )
        self._tokenizers = tokenizers
        self.n_best = n_best
        self._batch_tokens = batch_tokens
        self.max_input_tokens = max_input_tokens
        self.truncated = 0

        @tf.function(
            input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False
        )
        def search(source: tf.Tensor) -> Hypotheses:
            return beam_search(
                model, source, beam_size, length_penalty, max_extra_length, n_best
            )

        self._search = search

    def translate(self, sentences: Iterable[str]) -> list[list[Translation]]:
        """Translates sentences together; results are in their order.

        Args:
            sentences: Any number of sentences, empty ones among them.

        Returns:
            For each sentence its hypotheses, the best first: at most `n_best`, and
            at least one.
        """
        sentences = list(sentences)
        results: list[list[Translation]] = [[Translation("", 0.0)] for _ in sentences]
        if not sentences:
            return results
        ids = self._tokenizers.source.tokenize(tf.constant(sentences))
        lengths = ids.row_lengths().numpy()
        self.truncated += int((lengths > self.max_input_tokens).sum())
        ids = ids[:, : self.max_input_tokens]
        lengths = np.minimum(lengths, self.max_input_tokens)
        order = np.argsort(lengths, kind="stable")[::-1]
        order = order[lengths[order] > 0]
        start = 0
        while start < len(order):
            rows = max(1, self._batch_tokens // int(lengths[order[start]] + 1))
            batch = order[start : start + rows]
            for index, translations in zip(
                batch, self._translate_batch(tf.gather(ids, batch)), strict=True
            ):
                results[index] = translations
            start += rows
        return results

    def _translate_batch(self, ids: tf.RaggedTensor) -> list[list[Translation]]:
        found = self._search(append_eos(ids).to_tensor())
        # [batch, beam, length] -> [batch * n_best, (tokens)]
        best = found.ids[:, : self.n_best]
        flat = tf.reshape(best, [-1, tf.shape(best)[2]])
        texts = self._tokenizers.target.detokenize(
            tf.RaggedTensor.from_tensor(flat, padding=0)
        )
        texts = texts.numpy().reshape([-1, self.n_best])
        scores = found.scores[:, : self.n_best].numpy()
        return [
            [
                Translation(text.decode("utf-8", "replace"), float(score))
                for text, score in zip(row_texts, row_scores, strict=True)
                # A beam that found fewer hypotheses fills up with impossible ones.
                if score > -1e6
            ]
            for row_texts, row_scores in zip(texts, scores, strict=True)
        ]

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
        arrived: queue.Queue[str | None] = queue.Queue(maxsize=window)
        failure: list[Exception] = []

        def read() -> None:
            try:
                for sentence in sentences:
                    arrived.put(sentence)
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
                if len(pending) == window:
                    break
                try:
                    item = arrived.get(block=wait)
                except queue.Empty:
                    break
            ended = item is None
            yield from self.translate(pending)
        if failure:
            raise failure[0]
