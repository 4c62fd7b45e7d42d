"""Examples that are read by index, with their lengths for planning batches."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from t2t_keras.data.corpora import Chunk, Corpus
from t2t_keras.data.pair_filters import LengthFilter
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.special_tokens import EOS_ID


class Examples(ABC):
    """Sentence pairs that can be fetched by index.

    Attributes:
        lengths: `[n, 2]` int32, number of source and target tokens, including EOS.
        failure: The error that ended a dataset of the examples, or None. TensorFlow
            reports it as an error of its own.
    """

    def __init__(self, token_counts: np.ndarray) -> None:
        self.lengths = token_counts.astype(np.int32)
        self.lengths += 1
        self.failure: Exception | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    @abstractmethod
    def signature(self) -> tuple[tf.TensorSpec, ...]:
        """The specs of the arrays that `fetch` returns."""

    @abstractmethod
    def fetch(self, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns the raw form of the examples at `indices`. Runs outside the graph."""

    @abstractmethod
    def parse(self, *fetched: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Converts the raw form to source and target ids. Runs in the graph.

        Returns:
            Two `[batch, (tokens)]` int32, including EOS.
        """


class TextExamples(Examples):
    """Examples that keep raw text in memory and tokenize it on every read.

    Args:
        corpus: Corpus to read.
        split: Split to read.
        tokenizers: The tokenizers of both sides.
        length_filter: Filter for the pairs, the same as in `prepare`.

    Raises:
        UserError: If the corpus cannot be read.
    """

    def __init__(
        self,
        corpus: Corpus,
        split: str,
        tokenizers: TokenizerPair,
        length_filter: LengthFilter,
    ) -> None:
        self._tokenizers = tokenizers
        sources: list[bytes] = []
        targets: list[bytes] = []
        counts = []
        text = corpus.read_chunks(split)
        for chunk in tokenize_pairs(text, tokenizers, length_filter):
            sources += chunk.sources
            targets += chunk.targets
            counts.append(chunk.lengths)
        super().__init__(np.concatenate([np.zeros([0, 2], np.int64), *counts]))
        self._sources = np.array(sources, object)
        self._targets = np.array(targets, object)

    @property
    def signature(self) -> tuple[tf.TensorSpec, ...]:
        """Two string tensors, the source and target sentences."""
        return tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.string)

    def fetch(self, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns the sentences at `indices`."""
        return self._sources[indices], self._targets[indices]

    def parse(self, *fetched: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Tokenizes sentences in the graph."""
        source, target = fetched
        return (
            append_eos(self._tokenizers.source.tokenize(source)),
            append_eos(self._tokenizers.target.tokenize(target)),
        )


def append_eos(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Appends the end-of-sentence token to every row.

    Args:
        ids: `[batch, (tokens)]` integer.

    Returns:
        `[batch, (tokens + 1)]` int32.
    """
    ends = tf.fill([ids.nrows(), 1], EOS_ID)
    return tf.concat([tf.cast(ids, tf.int32), ends], axis=1)


class TokenizedChunk(NamedTuple):
    """A chunk of a few thousand tokenized and filtered pairs.

    Attributes:
        lengths: `[n, 2]` int64, number of source and target tokens.
        sources: The sources as UTF-8.
        targets: The targets as UTF-8.
    """

    lengths: np.ndarray
    sources: list[bytes]
    targets: list[bytes]


def tokenize_pairs(
    text: Iterable[Chunk],
    tokenizers: TokenizerPair,
    length_filter: LengthFilter,
) -> Iterator[TokenizedChunk]:
    """Tokenizes pairs on all cores, keeps their order, and applies the length filter.

    Args:
        text: The sentence pairs.
        tokenizers: The tokenizers of both sides.
        length_filter: Filter for the pairs. It counts the pairs that it removes.

    Yields:
        The pairs that are kept.

    Raises:
        UserError: If reading the pairs raises it.
    """
    failure: list[Exception] = []

    def chunks() -> Iterator[list[list[bytes]]]:
        try:
            for sides in text:
                yield [[line.encode("utf-8") for line in side] for side in sides]
        except Exception as error:
            # tf.data would wrap it in its own error, with a stack trace as message.
            failure.append(error)

    strings = tf.TensorSpec([None], tf.string)
    dataset = tf.data.Dataset.from_generator(
        lambda: map(tuple, chunks()), output_signature=(strings, strings)
    )
    dataset = dataset.map(
        lambda source, target: (
            tokenizers.source.tokenize(source).row_lengths(),
            tokenizers.target.tokenize(target).row_lengths(),
            source,
            target,
        ),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    ).prefetch(2)
    for chunk in dataset.as_numpy_iterator():
        source_lengths, target_lengths, sources, targets = chunk
        keep = length_filter.keep(source_lengths, target_lengths)
        yield TokenizedChunk(
            np.stack([source_lengths[keep], target_lengths[keep]], axis=1),
            sources[keep].tolist(),
            targets[keep].tolist(),
        )
    if failure:
        raise failure[0]
