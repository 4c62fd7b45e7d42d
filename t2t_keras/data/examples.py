"""Examples that are read by index, with their lengths for planning batches."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf

from t2t_keras.data.corpora import Corpus, Pair
from t2t_keras.data.pair_filters import LengthFilter
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.special_tokens import EOS_ID

_CHUNK_PAIRS = 4096


class Examples(ABC):
    """Sentence pairs that can be fetched by index.

    Attributes:
        lengths: `[n, 2]` int32, number of source and target tokens, including EOS.
    """

    def __init__(self, token_counts: np.ndarray) -> None:
        self.lengths = token_counts.astype(np.int32) + 1

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
        for chunk in tokenize_pairs(corpus.read(split), tokenizers, length_filter):
            sources += chunk.source_text
            targets += chunk.target_text
            counts.append(
                np.stack([chunk.source.row_lengths(), chunk.target.row_lengths()], 1)
            )
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


class TokenizedChunk:
    """A chunk of a few thousand tokenized and filtered pairs.

    Attributes:
        source: `[n, (tokens)]` integer, token ids of the sources.
        target: `[n, (tokens)]` integer, token ids of the targets.
        source_text: The sources as UTF-8.
        target_text: The targets as UTF-8.
    """

    def __init__(
        self,
        source: tf.RaggedTensor,
        target: tf.RaggedTensor,
        source_text: list[bytes],
        target_text: list[bytes],
    ) -> None:
        self.source = source
        self.target = target
        self.source_text = source_text
        self.target_text = target_text

    def id_pairs(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields the source and target ids of each pair."""
        sides = []
        for side in (self.source, self.target):
            ids, splits = side.flat_values.numpy(), side.row_splits.numpy()
            sides.append([ids[a:b] for a, b in itertools.pairwise(splits)])
        return zip(*sides, strict=True)


def tokenize_pairs(
    pairs: Iterable[Pair],
    tokenizers: TokenizerPair,
    length_filter: LengthFilter,
) -> Iterator[TokenizedChunk]:
    """Tokenizes pairs on all cores, keeps their order, and applies the length filter.

    Args:
        pairs: The sentence pairs.
        tokenizers: The tokenizers of both sides.
        length_filter: Filter for the pairs. It counts the pairs that it removes.

    Yields:
        Chunks of the pairs that are kept.

    Raises:
        UserError: If reading the pairs raises it.
    """
    failure: list[Exception] = []

    def chunks() -> Iterator[tuple[list[bytes], list[bytes]]]:
        sources: list[bytes] = []
        targets: list[bytes] = []
        try:
            for source, target in pairs:
                sources.append(source.encode("utf-8"))
                targets.append(target.encode("utf-8"))
                if len(sources) == _CHUNK_PAIRS:
                    yield sources, targets
                    sources, targets = [], []
        except Exception as error:
            # tf.data would wrap it in its own error, with a stack trace as message.
            failure.append(error)
        if sources:
            yield sources, targets

    text = tf.TensorSpec([None], tf.string)
    dataset = tf.data.Dataset.from_generator(chunks, output_signature=(text, text))
    dataset = dataset.map(
        lambda source, target: (
            tokenizers.source.tokenize(source),
            tokenizers.target.tokenize(target),
            source,
            target,
        ),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    ).prefetch(2)
    for source, target, source_text, target_text in dataset:
        keep = length_filter.keep(
            source.row_lengths().numpy(), target.row_lengths().numpy()
        )
        yield TokenizedChunk(
            tf.ragged.boolean_mask(source, keep),
            tf.ragged.boolean_mask(target, keep),
            source_text.numpy()[keep].tolist(),
            target_text.numpy()[keep].tolist(),
        )
    if failure:
        raise failure[0]
