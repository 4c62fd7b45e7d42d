"""Token ids in sharded TFRecord files, with an index for random access.

A shard is an ordinary TFRecord file of `tf.train.Example`s with the features
"source" and "target" (int64, without start and end tokens). The index holds the
position and length of each record, so that an epoch can be planned, shuffled, divided
among workers and resumed, and each worker reads only its own records.
"""

import contextlib
import hashlib
import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.data.examples import Examples, append_eos
from t2t_keras.errors import UserError
from t2t_keras.files import atomic_writer, user_path

_COLUMNS = ("source_length", "target_length", "shard", "offset", "size", "digests")
_HEADER_BYTES = 12  # Length of the record and checksum of the length.
_FOOTER_BYTES = 4  # Checksum of the record.


def _shard_path(directory: Path, split: str, shard: int, shards: int) -> Path:
    return directory / f"{split}-{shard:05d}-of-{shards:05d}.tfrecord"


def _index_path(directory: Path, split: str) -> Path:
    return directory / f"{split}.index.npz"


def _digest(path: Path) -> str:
    with user_path(path, "read"), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_records(
    directory: str | Path,
    split: str,
    shards: int,
    pairs: Iterable[tuple[Any, Any]],
) -> tuple[int, int, int]:
    """Writes token ids to shards, round-robin, and their index.

    Args:
        directory: An existing directory.
        split: Name of the split, used as prefix of the file names.
        shards: Number of files.
        pairs: Source and target ids, each a sequence of int.

    Returns:
        The number of pairs, of source tokens and of target tokens.
    """
    directory = Path(directory)
    columns: dict[str, list[int]] = {
        name: []
        for name in ("source_length", "target_length", "shard", "offset", "size")
    }
    ends = [0] * shards
    paths = [_shard_path(directory, split, i, shards) for i in range(shards)]
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(tf.io.TFRecordWriter(str(path))) for path in paths
        ]
        for number, (source, target) in enumerate(pairs):
            example = tf.train.Example()
            example.features.feature["source"].int64_list.value.extend(source)
            example.features.feature["target"].int64_list.value.extend(target)
            record = example.SerializeToString(deterministic=True)
            shard = number % shards
            writers[shard].write(record)
            columns["source_length"].append(len(source))
            columns["target_length"].append(len(target))
            columns["shard"].append(shard)
            columns["offset"].append(ends[shard] + _HEADER_BYTES)
            columns["size"].append(len(record))
            ends[shard] += _HEADER_BYTES + len(record) + _FOOTER_BYTES
    types = {"shard": np.uint16, "offset": np.int64}
    with atomic_writer(_index_path(directory, split)) as file:
        np.savez(
            file,
            allow_pickle=False,
            digests=np.array([_digest(path) for path in paths]),
            **{
                name: np.array(column, types.get(name, np.int32))
                for name, column in columns.items()
            },
        )
    return (
        len(columns["size"]),
        sum(columns["source_length"]),
        sum(columns["target_length"]),
    )


class RecordExamples(Examples):
    """The examples of one split of a data directory.

    Whole files are checked when they are opened, because random access does not check
    the checksums of records.

    Args:
        directory: The directory.
        split: Name of the split, the prefix of the file names.

    Raises:
        UserError: If files are missing or damaged.
    """

    def __init__(self, directory: str | Path, split: str) -> None:
        directory = Path(directory)
        index_path = _index_path(directory, split)
        with user_path(index_path, "read"):
            if not index_path.is_file():
                raise UserError(
                    f"{directory} has no {split} split ({index_path.name})."
                )
        try:
            with user_path(index_path, "read"), np.load(index_path) as index:
                columns = {name: index[name] for name in _COLUMNS}
        except UserError:
            raise
        except Exception as error:  # zipfile, zlib and NumPy raise various errors.
            raise UserError(
                f"{index_path} is damaged ({error}). Run t2t-prepare again."
            ) from error
        super().__init__(
            np.stack([columns["source_length"], columns["target_length"]], axis=1)
        )
        self._shard = columns["shard"]
        self._offset = columns["offset"]
        self._size = columns["size"]
        self._shards = []
        digests = columns["digests"]
        for i, digest in enumerate(digests):
            path = _shard_path(directory, split, i, len(digests))
            if not path.is_file() or _digest(path) != digest:
                state = "is damaged" if path.is_file() else "is missing"
                raise UserError(f"{path} {state}. Run t2t-prepare again.")
            with path.open("rb") as file:
                self._shards.append(
                    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                    if path.stat().st_size
                    else b""
                )

    @property
    def signature(self) -> tuple[tf.TensorSpec, ...]:
        """One string tensor of serialized examples."""
        return (tf.TensorSpec([None], tf.string),)

    def fetch(self, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns the serialized examples at `indices`."""
        records = np.empty(len(indices), object)
        for i, index in enumerate(indices):
            start = self._offset[index]
            records[i] = self._shards[self._shard[index]][
                start : start + self._size[index]
            ]
        return (records,)

    def parse(self, *fetched: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Parses serialized examples into token ids in the graph."""
        features = tf.io.parse_example(
            fetched[0],
            {
                name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
                for name in ("source", "target")
            },
        )
        return append_eos(features["source"]), append_eos(features["target"])
