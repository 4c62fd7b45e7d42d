"""Shards with a common index, as written by versions that wrote format 1."""

import mmap
from pathlib import Path

import numpy as np

from t2t_keras.data.record_examples import RecordExamples
from t2t_keras.data.shards import shard_path
from t2t_keras.errors import UserError
from t2t_keras.files import file_digest, user_path

_COLUMNS = ("source_length", "target_length", "shard", "offset", "size", "digests")


class NpzRecordExamples(RecordExamples):
    """The examples of one split of a data directory of format 1.

    Whole files are checked when they are opened.

    Args:
        directory: The directory.
        split: Name of the split, the prefix of the file names.

    Raises:
        UserError: If files are missing or damaged.
    """

    def __init__(self, directory: str | Path, split: str) -> None:
        directory = Path(directory)
        path = directory / f"{split}.index.npz"
        with user_path(path, "read"):
            if not path.is_file():
                raise UserError(f"{directory} has no {split} split ({path.name}).")
        try:
            with user_path(path, "read"), np.load(path) as index:
                columns = {name: index[name] for name in _COLUMNS}
        except UserError:
            raise
        except Exception as error:  # zipfile, zlib and NumPy raise various errors.
            raise UserError(
                f"{path} is damaged ({error}). Run t2t-prepare again."
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
            path = shard_path(directory, split, i, len(digests))
            if not path.is_file() or file_digest(path) != digest:
                state = "is damaged" if path.is_file() else "is missing"
                raise UserError(f"{path} {state}. Run t2t-prepare again.")
            with path.open("rb") as file:
                self._shards.append(
                    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                    if path.stat().st_size
                    else b""
                )

    def read(self, indices: np.ndarray) -> list[bytes]:
        """Returns the records at `indices`."""
        places = zip(
            self._shard[indices].tolist(),
            self._offset[indices].tolist(),
            self._size[indices].tolist(),
            strict=True,
        )
        return [
            self._shards[shard][offset : offset + size]
            for shard, offset, size in places
        ]
