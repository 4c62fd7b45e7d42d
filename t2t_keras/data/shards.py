"""Shards of a data directory: token ids in TFRecord files, each with its index.

A shard is an ordinary TFRecord file of `tf.train.Example`s with the features
"source" and "target" (int64, without start and end tokens). Its index has the lengths
and the position of each record, so that an epoch can be planned, shuffled, divided
among workers and resumed, and each worker reads only its own records.
"""

import contextlib
import dataclasses
import hashlib
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from t2t_keras.data.bpe_dropout import BpeDropout, BpeDropoutSampler
from t2t_keras.data.corpora import Chunk
from t2t_keras.data.example_records import (
    FOOTER_BYTES,
    HEADER_BYTES,
    serialize_example,
    write_records,
)
from t2t_keras.data.pair_filters import LengthFilter
from t2t_keras.data.pseudorandom import uniform
from t2t_keras.data.text_blocks import TextBlock
from t2t_keras.data.train_test_overlap import matching_hashes
from t2t_keras.data.word_encoding import EncodedLines, LineEncoder
from t2t_keras.files import atomic_writer, write_atomically

INDEX_ROW = np.dtype(
    [
        ("source_length", "<u4"),
        ("target_length", "<u4"),
        ("offset", "<u8"),
        ("size", "<u4"),
    ]
)
"""Row of an index: numbers of tokens, and the position of the record in the shard."""


def shard_path(directory: Path, split: str, shard: int, shards: int) -> Path:
    """Returns the path of a shard."""
    return directory / f"{split}-{shard:05d}-of-{shards:05d}.tfrecord"


def index_path(directory: Path, split: str, shard: int, shards: int) -> Path:
    """Returns the path of the index of a shard."""
    return shard_path(directory, split, shard, shards).with_suffix(".index.npy")


class ShardWriter:
    """Writes a shard and its index. Both files appear when the block ends.

    Args:
        directory: Directory of the shard.
        split: Name of the split.
        shard: Number of the shard, from 0.
        shards: Number of shards of the split.

    Attributes:
        index: After the block: the index, an array of `INDEX_ROW`.
        index_digest: After the block: SHA-256 of the index file, in hex digits.
    """

    def __init__(self, directory: Path, split: str, shard: int, shards: int) -> None:
        self._place = directory, split, shard, shards
        self._rows = [np.empty(0, INDEX_ROW)]
        self._end = 0
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        writer = atomic_writer(shard_path(*self._place))
        self._file = self._stack.enter_context(writer)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.__exit__(*exception)
        if exception[0] is not None:
            return
        self.index = np.concatenate(self._rows)
        content = io.BytesIO()
        np.save(content, self.index)
        write_atomically(index_path(*self._place), content.getvalue())
        self.index_digest = hashlib.sha256(content.getvalue()).hexdigest()

    def write(self, source: EncodedLines, target: EncodedLines) -> None:
        """Appends the token ids of pairs.

        Args:
            source: `[n]` sources, without start and end tokens.
            target: `[n]` targets, without start and end tokens.
        """
        if not source.ids:
            return
        records = [*map(serialize_example, source.ids, target.ids)]
        write_records(self._file, records)
        rows = np.empty(len(records), INDEX_ROW)
        rows["source_length"], rows["target_length"] = source.lengths, target.lengths
        rows["size"] = [*map(len, records)]
        ends = np.cumsum(rows["size"] + HEADER_BYTES + FOOTER_BYTES, dtype=np.int64)
        rows["offset"] = self._end + ends - FOOTER_BYTES - rows["size"]
        self._end += int(ends[-1])
        self._rows.append(rows)


@dataclasses.dataclass(frozen=True)
class ShardTask:
    """A shard to write.

    Attributes:
        block: The text.
        directory: Directory of the shard.
        split: Name of the split.
        shard: Number of the shard, from 0.
        shards: Number of shards of the split.
        subword: Type of subwords.
        models: Serialized tokenizers of the source and the target side.
        length_filter: Filter for the pairs.
        bpe_dropout: BPE dropout, or None.
        held_out: Hashes of the held-out sources to look for.
    """

    block: TextBlock
    directory: Path
    split: str
    shard: int
    shards: int
    subword: str
    models: tuple[bytes, bytes]
    length_filter: LengthFilter
    bpe_dropout: BpeDropout | None = None
    held_out: frozenset[int] = frozenset()


@dataclasses.dataclass(frozen=True)
class ShardResult:
    """Counts of a shard.

    Attributes:
        pairs: Number of records.
        source_tokens: Number of source tokens, without end tokens.
        target_tokens: Number of target tokens, without end tokens.
        removed: Number of pairs that the length filter removed, by reason.
        index_digest: SHA-256 of the index, in hex digits.
        held_out: Hashes of the held-out pairs and sources that the text contains.
    """

    pairs: int
    source_tokens: int
    target_tokens: int
    removed: dict[str, int]
    index_digest: str
    held_out: set[int]


def write_shard(task: ShardTask) -> ShardResult:
    """Tokenizes a block of text and writes a shard with its index."""
    length_filter = dataclasses.replace(task.length_filter)
    found: set[int] = set()

    def watched(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        for sources, targets in chunks:
            found.update(matching_hashes(task.held_out, sources, targets))
            yield sources, targets

    text = watched(task.block.read_chunks())
    with ShardWriter(task.directory, task.split, task.shard, task.shards) as writer:
        for source, target in _encoded(task, text, length_filter):
            writer.write(source, target)
    return ShardResult(
        pairs=len(writer.index),
        source_tokens=int(writer.index["source_length"].sum(dtype=np.int64)),
        target_tokens=int(writer.index["target_length"].sum(dtype=np.int64)),
        removed=length_filter.removed,
        index_digest=writer.index_digest,
        held_out=found,
    )


def _encoded(
    task: ShardTask, text: Iterable[Chunk], length_filter: LengthFilter
) -> Iterator[tuple[EncodedLines, EncodedLines]]:
    """Yields the token ids of the pairs that the length filter keeps, by chunk."""
    source_encoder = LineEncoder(task.subword, task.models[0])
    target_encoder = source_encoder
    if task.models[0] != task.models[1]:
        target_encoder = LineEncoder(task.subword, task.models[1])
    sampler = None
    if task.bpe_dropout:
        sampler = BpeDropoutSampler(task.bpe_dropout, task.models, seed=task.shard)
    tag = f"{task.block.tag} " if task.block.tag else ""
    done = 0
    for sources, targets in text:
        if tag:
            sources = [tag + source for source in sources]
        source, target = source_encoder(sources), target_encoder(targets)
        kept = np.flatnonzero(length_filter.keep(source.lengths, target.lengths))
        copies = _copies(task.block.weight, np.arange(done, done + len(kept)))
        done += len(kept)
        written = np.repeat(kept, copies)
        if len(written) != len(sources) or task.block.weight != 1:
            source, target = source.take(written), target.take(written)
        if sampler:
            source_text, target_text = (
                [side[i] for i in written.tolist()] for side in (sources, targets)
            )
            source, target = sampler.sample(source_text, target_text, source, target)
        yield source, target


def _copies(weight: float, numbers: np.ndarray) -> np.ndarray:
    """Returns how often to write each pair: its weight, rounded up or down at random.

    Args:
        weight: The mean number of copies.
        numbers: `[n]` integer, number of each pair.
    """
    whole = int(weight)
    is_more = uniform(numbers.astype(np.uint64)) < weight - whole
    return whole + is_more.astype(np.int64)
