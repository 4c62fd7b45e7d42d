"""Tensors as JSON, by the rules of TensorFlow Serving's REST API."""

import base64
import binascii
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef

from t2t_keras.serving.errors import ServingError, invalid, shown
from t2t_keras.serving.saved_model import MOST_AXES, Arrays

_BYTES = "_bytes"
"""The end of an output's name whose strings are binary."""

_ROW, _COLUMN = "instances", "inputs"


class Body(NamedTuple):
    """A request as it came.

    Attributes:
        signature_name: Empty for the default.
        values: What stands under "instances" or "inputs".
        is_row: Whether it is "instances", and the answer is wanted likewise.
    """

    signature_name: str
    values: Any
    is_row: bool


def parse(body: bytes) -> Body:
    """Reads the body of a request.

    Raises:
        ServingError: If it is no JSON, or not what it should be.
    """
    try:
        request = json.loads(body)
    except RecursionError:
        raise invalid("JSON Parse error: The value is nested too deeply.") from None
    except ValueError as error:
        raise invalid(f"JSON Parse error: {error}") from None
    if not isinstance(request, dict):
        raise invalid("The body is a JSON object. Received: " + _kind(request))
    signature_name = request.get("signature_name", "")
    if not isinstance(signature_name, str):
        raise invalid(f"signature_name is a string. Received: {_kind(signature_name)}")
    if (_ROW in request) == (_COLUMN in request):
        raise invalid(f'The body has either "{_ROW}" or "{_COLUMN}".')
    is_row = _ROW in request
    return Body(signature_name, request[_ROW if is_row else _COLUMN], is_row)


def to_arrays(body: Body, signature: SignatureDef) -> Arrays:
    """Makes the inputs of a signature of JSON.

    Raises:
        ServingError: If names, types or nesting do not fit.
    """
    infos = signature.inputs
    if body.is_row:
        columns = _columns(body.values, infos)
    elif isinstance(body.values, dict) and not _is_binary(body.values):
        columns = body.values
    elif len(infos) == 1:
        columns = {next(iter(infos)): body.values}
    else:
        raise invalid(f'"{_COLUMN}" is an object with the inputs {sorted(infos)}.')
    unknown = set(columns) - set(infos)
    missing = set(infos) - set(columns)
    if unknown or missing:
        raise invalid(
            f"The inputs do not match the signature. Sent extra: "
            f"{shown(sorted(unknown))}. Missing but required: {sorted(missing)}."
        )
    return {
        name: _array(name, values, tf.as_dtype(infos[name].dtype))
        for name, values in columns.items()
    }


def _columns(rows: Any, infos: Mapping[str, Any]) -> dict[str, Any]:
    """Turns rows into one list an input."""
    if not isinstance(rows, list) or not rows:
        raise invalid(f'"{_ROW}" is a list with at least one instance.')
    named = [isinstance(row, dict) and not _is_binary(row) for row in rows]
    if not any(named):
        if len(infos) != 1:
            raise invalid(f"An instance is an object with the inputs {sorted(infos)}.")
        return {next(iter(infos)): rows}
    if not all(named) or any(set(row) != set(rows[0]) for row in rows):
        raise invalid("All instances are objects with the same inputs.")
    return {name: [row[name] for row in rows] for name in rows[0]}


def _is_binary(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"b64"}


def _array(name: str, values: Any, dtype: tf.DType) -> np.ndarray:
    shape, first = [], values
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    if len(shape) > MOST_AXES:
        raise invalid(f"Input {name} has more than {MOST_AXES} axes.")
    flat: list[Any] = []
    _flatten(name, values, shape, flat)
    convert = _converter(name, dtype)
    try:
        array = np.array([convert(value) for value in flat], dtype.as_numpy_dtype)
    except OverflowError as error:
        raise invalid(f"Input {name} is {dtype.name}: {error}") from None
    return array.reshape(shape)


def _flatten(name: str, values: Any, shape: list[int], flat: list[Any]) -> None:
    if not shape:
        if isinstance(values, list):
            raise invalid(f"Input {name}: lists of one level are equally deep.")
        flat.append(values)
        return
    if not isinstance(values, list) or len(values) != shape[0]:
        raise invalid(f"Input {name}: lists of one level are equally long.")
    for value in values:
        _flatten(name, value, shape[1:], flat)


def _converter(name: str, dtype: tf.DType) -> Any:
    """Returns what turns a JSON value into one of a dtype, and nothing else."""

    def wrong(value: Any) -> ServingError:
        return invalid(f"Input {name} is {dtype.name}. Received: {_kind(value)}")

    def to_string(value: Any) -> bytes:
        if isinstance(value, str):
            # JSON can hold half a surrogate pair, which is no text.
            return value.encode("utf-8", "surrogatepass")
        if not _is_binary(value) or not isinstance(value["b64"], str):
            raise wrong(value)
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError):
            raise invalid(f"Input {name}: the value of b64 is no Base64.") from None

    def to_bool(value: Any) -> bool:
        if not isinstance(value, bool):
            raise wrong(value)
        return value

    def to_integer(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise wrong(value)
        if not dtype.min <= value <= dtype.max:
            raise invalid(f"Input {name} is {dtype.name}. Received: {value}")
        return value

    def to_float(value: Any) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise wrong(value)
        return float(value)

    if dtype == tf.string:
        return to_string
    if dtype == tf.bool:
        return to_bool
    if dtype.is_integer:
        return to_integer
    if dtype.is_floating:
        return to_float
    raise invalid(f"Input {name} is {dtype.name}, for which there is no JSON.")


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    if value is None:
        return "null"
    if type(value) in kinds:
        return kinds[type(value)]
    return f"the number {str(value)[:40]}"


def answer(outputs: Arrays, is_row: bool) -> bytes:
    """Writes the outputs of a request as JSON.

    Args:
        outputs: By name.
        is_row: Whether an entry a row is wanted.

    Raises:
        ServingError: If the outputs have no rows to divide them by.
    """
    values = {name: _values(name, array) for name, array in outputs.items()}
    if not is_row:
        result = values if len(values) > 1 else next(iter(values.values()))
        return _dump({"outputs": result})
    if len({array.shape[:1] for array in outputs.values()}) > 1 or any(
        array.ndim == 0 for array in outputs.values()
    ):
        raise invalid(
            f'The outputs have no common first axis; send "{_COLUMN}" rather than '
            f'"{_ROW}".'
        )
    if len(values) == 1:
        return _dump({"predictions": next(iter(values.values()))})
    rows = zip(*values.values(), strict=True)
    return _dump({"predictions": [dict(zip(values, r, strict=True)) for r in rows]})


def _dump(value: Any) -> bytes:
    # What is no number is written as NaN and Infinity, as TensorFlow Serving does.
    return json.dumps(value, ensure_ascii=False).encode()


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
