"""Reads Marian's binary files, in which Bergamot's and Firefox's models are stored.

All numbers are little-endian. A file contains its version (8 bytes) and the number of
items, a header of four numbers for each item (length of the name, type, number of
dimensions, bytes of data), the names, the shapes (int32), the length of a gap that
aligns the data, the gap, and the data of the items.

Quantized matrices contain integers and then a float32 scale: weight = integer / scale.
They are stored transposed, except for embeddings. (Marian: src/common/binary.cpp;
Bergamot: src/tensors/cpu/expression_graph_packable.h.)
"""

import math
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files import user_path

_VERSION = 1
_BYTES = 0x101
_FLOATS = {0x402: np.float16, 0x404: np.float32}
_INTEGERS = {
    # Of Bergamot's fork, and of Marian itself.
    **{0x4101: np.int8, 0x4102: np.int16},
    **{0x10001: np.int8, 0x10002: np.int16},
}
_MAX_ITEMS = 100_000
_OPTIONS = "special:model.yml"


class BinaryModel(NamedTuple):
    """Content of a file.

    Attributes:
        options: The model's options in YAML.
        tensors: The tensors by name, quantized ones as float32.
    """

    options: bytes
    tensors: dict[str, np.ndarray]


class _Item(NamedTuple):
    name: str
    kind: int
    shape: tuple[int, ...]
    data: memoryview


def is_binary_model(path: Path) -> bool:
    """Returns whether a path is a file that begins like a model."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(16)
    if len(start) < 16:
        return False
    version, items = struct.unpack("<QQ", start)
    return version == _VERSION and 0 < items <= _MAX_ITEMS


def read_binary(path: Path) -> BinaryModel:
    """Reads a file.

    Args:
        path: The file.

    Raises:
        UserError: If the file cannot be read, is damaged, or contains tensors of an
            unsupported type.
    """
    with user_path(path, "read"):
        content = memoryview(path.read_bytes())
    try:
        items = _items(path, content)
    except (struct.error, UnicodeDecodeError) as error:
        raise _damaged(path, "it is truncated or no binary model of Marian") from error
    options, tensors = None, {}
    for item in items:
        if item.name == _OPTIONS:
            options = bytes(item.data).rstrip(b"\0")
        elif item.name in tensors:
            raise _damaged(path, f"it contains {item.name} twice")
        else:
            tensors[item.name] = _tensor(path, item)
    if options is None:
        raise UserError(f"{path} does not contain the model's options ({_OPTIONS}).")
    return BinaryModel(options, tensors)


def _items(path: Path, content: memoryview) -> list[_Item]:
    position = 0

    def read(pattern: str) -> tuple[int, ...]:
        nonlocal position
        values = struct.unpack_from(f"<{pattern}", content, position)
        position += struct.calcsize(f"<{pattern}")
        return values

    def skip(size: int, what: str) -> memoryview:
        nonlocal position
        if size > len(content) - position:
            raise _damaged(path, f"{what} is incomplete")
        position += size
        return content[position - size : position]

    version, number = read("QQ")
    if version != _VERSION:
        raise UserError(
            f"{path} is no binary model of Marian of version {_VERSION}. Received "
            f"version: {version}"
        )
    # Each header takes 32 bytes: nothing larger than the file is read.
    if number > min(_MAX_ITEMS, len(content) // 32):
        raise _damaged(path, "its header is incomplete")
    headers = [read("4Q") for _ in range(number)]
    names = [bytes(skip(header[0], "a name")) for header in headers]
    shapes = []
    for header in headers:
        if header[2] > 8:
            raise _damaged(path, "a tensor has more than 8 dimensions")
        shapes.append(read(f"{header[2]}i"))
    (gap,) = read("Q")
    skip(gap, "its header")
    return [
        _Item(
            name.rstrip(b"\0").decode(),
            kind,
            shape,
            skip(size, f"the tensor {name.rstrip(bytes(1)).decode()}"),
        )
        for (_, kind, _, size), name, shape in zip(headers, names, shapes, strict=True)
    ]


def _tensor(path: Path, item: _Item) -> np.ndarray:
    """Returns the array of an item."""
    dtype = _FLOATS.get(item.kind) or _INTEGERS.get(item.kind)
    if dtype is None:
        raise UserError(
            f"{path}: the type {item.kind:#x} of {item.name} is not supported. It must "
            "be float32, float16, or integers of intgemm that are not packed for one "
            "kind of processor."
        )
    shape = item.shape
    if any(size < 1 for size in shape):
        raise _damaged(path, f"{item.name} has the shape {shape}")
    needed = math.prod(shape) * np.dtype(dtype).itemsize
    is_quantized = item.kind in _INTEGERS
    if needed + 4 * is_quantized > len(item.data):
        raise _damaged(path, f"the tensor {item.name} is incomplete")
    values = np.frombuffer(item.data[:needed], dtype)
    if not is_quantized:
        return values.reshape(shape)
    if item.name.endswith("Wemb"):
        matrix = values.reshape(shape)
    else:
        matrix = values.reshape(shape[::-1]).T
    scale = np.frombuffer(item.data[needed : needed + 4], np.float32)[0]
    if not np.isfinite(scale) or scale <= 0:
        # Scales of activations are stored as quantized tensors, too.
        return np.full(shape, np.nan, np.float32)
    return matrix.astype(np.float32) / scale


def _damaged(path: Path, reason: str) -> UserError:
    return UserError(f"{path} is damaged: {reason}.")
