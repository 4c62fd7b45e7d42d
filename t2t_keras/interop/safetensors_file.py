"""Reads and writes safetensors files.

The format is a header length (8 bytes, little-endian), a JSON header with dtype, shape
and position of each tensor, and the tensors. Reading it takes no package, covers
bfloat16, which NumPy lacks, and checks all sizes before memory is allocated.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.files import user_path
from t2t_keras.json_file import unique_keys

_DTYPES: dict[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": tf.bfloat16.as_numpy_dtype,
}
_MAX_HEADER_BYTES = 100_000_000
"""Limit of the format."""


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Reads the tensors of a file.

    Args:
        path: The file.

    Returns:
        The tensors by name, mapped from the file, in their stored dtype: float16,
        bfloat16, float32 or float64.

    Raises:
        UserError: If the file cannot be read, is damaged or truncated, or has a tensor
            of another dtype.
    """
    with user_path(path, "read"), path.open("rb") as file:
        size = path.stat().st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _MAX_HEADER_BYTES):
            raise _damaged(path, "it is truncated or no safetensors file")
        content = file.read(length)
    try:
        header = json.loads(content, object_pairs_hook=unique_keys)
        header.pop("__metadata__", None)
        described = {
            name: (entry["dtype"], entry["shape"], *entry["data_offsets"])
            for name, entry in header.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, "its header is invalid") from error
    if not described:
        raise _damaged(path, "it has no tensors")
    data = np.memmap(path, np.uint8, "r", 8 + length)
    return {
        name: _tensor(path, data, name, *entry) for name, entry in described.items()
    }


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes tensors to a file.

    Args:
        path: The file.
        tensors: The tensors by name, in one of the dtypes that `read_safetensors`
            reads.
    """
    names = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
    # The metadata is what transformers looks for.
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": names[tensor.dtype],
            "shape": tensor.shape,
            "data_offsets": [start, end],
        }
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)  # Aligns the tensors.
    with path.open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor).tobytes())


def _tensor(
    path: Path, data: np.ndarray, name: str, dtype: Any, shape: Any, *offsets: Any
) -> np.ndarray:
    if dtype not in [*_DTYPES]:
        raise UserError(
            f"{path}: the dtype of {name} must be one of {', '.join(_DTYPES)}. "
            f"Received: {dtype}"
        )
    numbers = [*shape, *offsets] if isinstance(shape, list) else [None]
    if len(offsets) != 2 or any(type(n) is not int or n < 0 for n in numbers):
        raise _damaged(path, f"the entry of {name} is invalid")
    start, end = offsets
    needed = math.prod(shape) * np.dtype(_DTYPES[dtype]).itemsize
    if end > len(data) or end - start != needed:
        raise _damaged(path, f"the data of {name} is incomplete")
    try:
        return data[start:end].view(_DTYPES[dtype]).reshape(shape)
    except ValueError as error:  # Too many dimensions, or too large ones beside a 0.
        raise _damaged(path, f"the entry of {name} is invalid") from error


def _damaged(path: Path, reason: str) -> UserError:
    return UserError(f"{path} is damaged: {reason}.")
