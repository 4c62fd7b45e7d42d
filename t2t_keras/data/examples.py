"""Examples with known lengths, which batches are planned from."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf

from t2t_keras.data.corpora import Corpus, Pair
from t2t_keras.data.filters import LengthFilter
from t2t_keras.data.tokenizer_pair import TokenizerPair
from t2t_keras.tokens import EOS_ID

_CHUNK_PAIRS = 4096


class Examples(ABC):
    """Sentence pairs that can be fetched by index.

    Attributes:
        lengths: `[n, 2]` int32, the tokens of source and target, the end included.
    """

    def __init__(self, token_counts: np.ndarray) -> None:
        self.lengths = token_counts.astype(np.int32) + 1

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    @abstractmethod
    def signature(self) -> tuple[tf.TensorSpec, ...]:
        """The types of what `fetch` returns."""

    @abstractmethod
    def fetch(self, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns the raw form of some examples, outside the graph."""

    @abstractmethod
    def parse(self, *fetched: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Turns the raw form into source and target ids with their ends, in the graph.

        Returns:
            Two `[batch, (tokens)]` int32.
        """


class TextExamples(Examples):
    """Raw text held in memory and tokenized anew whenever it is read.

    Args:
        corpus: Where the text comes from.
        split: The split to read.
        tokenizers: The tokenizers of both sides.
        length_filter: Which pairs to keep, the same as `prepare`'s.

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
        """Source and target sentences."""
        return tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.string)

    def fetch(self, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns the sentences of some indices."""
        return self._sources[indices], self._targets[indices]

    def parse(self, *fetched: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Tokenizes sentences, in the graph."""
        source, target = fetched
        return (
            append_eos(self._tokenizers.source.tokenize(source)),
            append_eos(self._tokenizers.target.tokenize(target)),
        )


def append_eos(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Ends every row with the end-of-sentence token.

    Args:
        ids: `[batch, (tokens)]` integer.

    Returns:
        `[batch, (tokens + 1)]` int32.
    """
    ends = tf.fill([ids.nrows(), 1], EOS_ID)
    return tf.concat([tf.cast(ids, tf.int32), ends], axis=1)


class TokenizedChunk:
    """Some thousand pairs after tokenization and filtering.

    Attributes:
        source: Token ids of the sources, `[n, (tokens)]`, in NumPy.
        target: Token ids of the targets, likewise.
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
        """Yields the ids of one pair after another."""
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
    """Tokenizes pairs on all cores, in order, and drops what the filter rejects.

    Args:
        pairs: The sentences.
        tokenizers: The tokenizers of both sides.
        length_filter: Which pairs to keep; it counts the others.

    Raises:
        UserError: What reading the pairs raises.
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
            # tf.data would turn it into one of its own, with a stack trace as text.
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
