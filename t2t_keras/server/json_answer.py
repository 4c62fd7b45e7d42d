"""Answers in JSON, by the rules of TensorFlow Serving's REST API."""

import base64
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from t2t_keras.server.json_tensors import COLUMN, ROW
from t2t_keras.server.saved_model import Arrays
from t2t_keras.server.serving_errors import invalid, too_large_answer

_BYTES = "_bytes"
"""The end of an output's name whose strings are binary."""
_SLICE = 1 << 14
"""Values that are written at a time, since no other thread of Python runs meanwhile."""


def answer(outputs: Arrays, is_row: bool, max_bytes: int) -> bytes:
    """Writes the outputs of a request as JSON.

    Args:
        outputs: By name.
        is_row: Whether an entry a row is wanted.
        max_bytes: The most bytes of an answer.

    Raises:
        ServingError: If the outputs have no rows to divide them by, or are of a type
            that JSON has not, or the answer would be too large.
    """
    for name, array in outputs.items():
        if array.dtype.kind == "c" or array.dtype.names:
            raise invalid(
                f"Output {name} is {array.dtype.name}, for which there is no JSON; "
                "gRPC has it."
            )
    parts, left = [], max_bytes
    for text in _rows(outputs) if is_row else _columns(outputs):
        parts.append(text.encode())
        left -= len(parts[-1])
        if left < 0:
            raise too_large_answer(max_bytes)
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
            f'The outputs have no common first axis; send "{COLUMN}" rather than '
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
    """Writes rows of several outputs, so many at a time that no thread waits long."""
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
    """Writes an array, likewise."""
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
    # Not by its index: a lone string is no array any more.
    return array[number : number + 1].reshape(array.shape[1:])


def _dump(value: Any) -> str:
    # What is no number is written as NaN and Infinity, as TensorFlow Serving does.
    return json.dumps(value, ensure_ascii=False)


def _values(name: str, array: np.ndarray) -> Any:
    if array.dtype == object:
        convert = _base64 if name.endswith(_BYTES) else _text
        flat: list[Any] = [convert(value) for value in array.ravel()]
        return _nested(flat, list(array.shape))
    if array.dtype.itemsize < 8 and array.dtype.kind not in "biu":
        # The shortest decimal that tells the value apart, not that of its double.
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
