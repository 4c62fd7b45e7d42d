"""Examples that are read from the shards of a data directory."""

import functools
import hashlib
import io
import os
import struct
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.data.example_records import FOOTER_BYTES, masked_checksum
from t2t_keras.data.examples import Examples, append_eos
from t2t_keras.data.shards import INDEX_ROW, index_path, shard_path
from t2t_keras.errors import UserError
from t2t_keras.files import user_path

_OPEN_FILES = 128
"""Maximum number of files that are open at once. A process may have about 1,000."""


class RecordExamples(Examples):
    """Examples that are stored as serialized `tf.train.Example`s."""

    @property
    def signature(self) -> tuple[tf.TensorSpec, ...]:
        """One string tensor of serialized examples."""
        return (tf.TensorSpec([None], tf.string),)

    @abstractmethod
    def read(self, indices: np.ndarray) -> list[bytes]:
        """Returns the records at `indices`.

        Raises:
            UserError: If a record is damaged.
        """

    def fetch(self, indices: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns the serialized examples at `indices`."""
        records = np.empty(len(indices), object)
        records[:] = self.read(indices)
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


class ShardExamples(RecordExamples):
    """The examples of one split of a data directory.

    Only the indexes are read when the directory is opened. Each record is checked
    against its checksum whenever it is read. Of each pair, only the lengths stay in
    memory: 8 bytes.

    Args:
        directory: The directory.
        split: Name of the split, the prefix of the file names.
        digests: SHA-256 of the index of each shard, in hex digits.

    Raises:
        UserError: If files are missing, or an index is damaged.
    """

    def __init__(
        self, directory: str | Path, split: str, digests: Sequence[str]
    ) -> None:
        directory, shards = Path(directory), len(digests)
        self._paths = [
            (
                shard_path(directory, split, i, shards),
                index_path(directory, split, i, shards),
            )
            for i in range(shards)
        ]
        lengths, self._rows_at = [], []
        for (records, index), digest in zip(self._paths, digests, strict=True):
            rows, rows_at = _read_index(index, digest)
            _check_size(records, rows)
            lengths.append(
                np.stack([rows["source_length"], rows["target_length"]], axis=1)
            )
            self._rows_at.append(rows_at)
        self._ends = np.cumsum([len(one) for one in lengths])
        # Descriptors are closed when the cache drops their file objects.
        self._open = functools.lru_cache(_OPEN_FILES)(_open)
        super().__init__(np.concatenate(lengths))

    def read(self, indices: np.ndarray) -> list[bytes]:
        """Returns the records at `indices`."""
        shards = np.searchsorted(self._ends, indices, side="right")
        starts = np.concatenate([[0], self._ends])[shards]
        rows = (indices - starts).tolist()
        return [*map(self._read_record, shards.tolist(), rows)]

    def _read_record(self, shard: int, row: int) -> bytes:
        path, index = self._paths[shard]
        place = self._rows_at[shard] + row * INDEX_ROW.itemsize + _POSITION_AT
        position = os.pread(self._open(index).fileno(), _POSITION.size, place)
        offset, size = _POSITION.unpack(position)
        content = os.pread(self._open(path).fileno(), size + FOOTER_BYTES, offset)
        record = content[:size]
        if content[size:] != masked_checksum(record):
            raise _damaged(path)
        return record


_POSITION = struct.Struct("<QI")
_POSITION_AT = 8
"""The fields "offset" and "size" of an `INDEX_ROW`, and their place in it."""


def _open(path: Path) -> Any:
    with user_path(path, "read"):
        return path.open("rb", buffering=0)


def _damaged(path: Path) -> UserError:
    return UserError(f"{path} is damaged. Run t2t-prepare again.")


def _require_file(path: Path) -> None:
    with user_path(path, "read"):
        if not path.is_file():
            raise UserError(f"{path} is missing. Run t2t-prepare again.")


def _read_index(path: Path, digest: str) -> tuple[np.ndarray, int]:
    """Returns the rows of an index and the place of the first one in the file."""
    _require_file(path)
    with user_path(path, "read"):
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise _damaged(path)
    rows = np.load(io.BytesIO(content))
    return rows, len(content) - rows.nbytes


def _check_size(path: Path, rows: np.ndarray) -> None:
    """Checks that a shard exists and ends after its last record."""
    _require_file(path)
    end = 0
    if len(rows):
        end = int(rows["offset"][-1]) + int(rows["size"][-1]) + FOOTER_BYTES
    if path.stat().st_size != end:
        raise _damaged(path)
