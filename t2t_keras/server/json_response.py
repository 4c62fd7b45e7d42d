"""JSON responses, in the format of TensorFlow Serving's REST API."""

import base64
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from t2t_keras.server.json_body import COLUMN, ROW
from t2t_keras.server.saved_model import Arrays
from t2t_keras.server.serving_errors import invalid, too_large_response

_BYTES = "_bytes"
"""Suffix of the names of outputs with binary strings."""
_SLICE = 1 << 14
"""Number of values converted per step; other Python threads run between steps."""


def to_json(outputs: Arrays, is_row: bool, max_bytes: int) -> bytes:
    """Converts the outputs of a request to JSON.

    Args:
        outputs: Arrays by name.
        is_row: Whether to return one entry per row.
        max_bytes: Maximum size of the response in bytes.

    Raises:
        ServingError: If the outputs cannot be split into rows, have a type that JSON
            cannot represent, or the response would be too large.
    """
    for name, array in outputs.items():
        if array.dtype.kind == "c" or array.dtype.names:
            raise invalid(
                f"Output {name} is {array.dtype.name}, which JSON cannot represent; "
                "use gRPC."
            )
    parts, remaining = [], max_bytes
    for text in _rows(outputs) if is_row else _columns(outputs):
        parts.append(text.encode())
        remaining -= len(parts[-1])
        if remaining < 0:
            raise too_large_response(max_bytes)
    return b"".join(parts)


def _columns(outputs: Arrays) -> Iterator[str]:
    yield '{"outputs": '
    if len(outputs) > 1:
        yield from _object(outputs)
    else:
        for name, array in outputs.items():
            yield from _array(name, array)
    yield "}"


def _rows(outputs: Arrays) -> Iterator[str]:
    arrays = list(outputs.values())
    if len({array.shape[:1] for array in arrays}) > 1 or arrays[0].ndim == 0:
        raise invalid(
            f'The outputs have no common first axis; send "{COLUMN}" instead of '
            f'"{ROW}".'
        )
    yield '{"predictions": '
    if len(outputs) == 1:
        for name, array in outputs.items():
            yield from _array(name, array)
    else:
        yield from _list_of_objects(outputs)
    yield "}"


def _list_of_objects(outputs: Arrays) -> Iterator[str]:
    """Converts rows of several outputs, in steps so that other threads can run."""
    number = len(next(iter(outputs.values())))
    size = sum(array.size for array in outputs.values())
    step = max(_SLICE * number // max(size, 1), 1)
    yield "["
    for start in range(0, number, step):
        yield ", " if start else ""
        if step == 1:
            yield from _object({n: _row(array, start) for n, array in outputs.items()})
            continue
        columns = [
            _values(name, array[start : start + step])
            for name, array in outputs.items()
        ]
        rows = zip(*columns, strict=True)
        yield _dump([dict(zip(outputs, row, strict=True)) for row in rows])[1:-1]
    yield "]"


def _object(arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
    for number, (name, array) in enumerate(arrays.items()):
        yield f"{', ' if number else '{'}{_dump(name)}: "
        yield from _array(name, array)
    yield "}"


def _array(name: str, array: np.ndarray) -> Iterator[str]:
    """Converts an array, in small steps so that other threads can run."""
    if array.size <= _SLICE:
        yield _dump(_values(name, array))
        return
    step = max(_SLICE * len(array) // array.size, 1)
    yield "["
    for start in range(0, len(array), step):
        yield ", " if start else ""
        if step == 1:
            yield from _array(name, _row(array, start))
        else:
            yield _dump(_values(name, array[start : start + step]))[1:-1]
    yield "]"


def _row(array: np.ndarray, number: int) -> np.ndarray:
    # Slicing keeps an array: indexing would turn a single string into a scalar.
    return array[number : number + 1].reshape(array.shape[1:])


def _dump(value: Any) -> str:
    # Writes NaN and Infinity, as TensorFlow Serving does.
    return json.dumps(value, ensure_ascii=False)


def _values(name: str, array: np.ndarray) -> Any:
    if array.dtype == object:
        convert = _base64 if name.endswith(_BYTES) else _text
        flat: list[Any] = [convert(value) for value in array.ravel()]
        return _nested(flat, list(array.shape))
    if array.dtype.itemsize < 8 and array.dtype.kind not in "biu":
        # The shortest decimal of the value in its own dtype, not as a double.
        flat = [float(str(value)) for value in array.ravel()]
        return _nested(flat, list(array.shape))
    return array.tolist()


def _nested(flat: list[Any], shape: list[int]) -> Any:
    if not shape:
        return flat[0]
    size = math.prod(shape[1:])
    return [
        _nested(flat[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])
    ]


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _base64(value: bytes | str) -> dict[str, str]:
    binary = value.encode() if isinstance(value, str) else value
    return {"b64": base64.b64encode(binary).decode()}
