"""Converts JSON values to the input arrays of a signature."""

import base64
import binascii
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef

from t2t_keras.server.json_body import COLUMN, ROW, Body, kind_of
from t2t_keras.server.saved_model import MAX_AXES, Arrays, check_rows, check_shape
from t2t_keras.server.serving_errors import ServingError, abbreviated, invalid

_SLICE = 1 << 14
"""Number of values copied per step; other Python threads run between steps."""


def to_arrays(body: Body, signature: SignatureDef, max_rows: int | None) -> Arrays:
    """Converts JSON to the inputs of a signature.

    Args:
        body: Body of the request.
        signature: Requested signature.
        max_rows: Maximum number of rows of an input; None if the first axis is not a
            batch axis.

    Raises:
        ServingError: If names, types, nesting or shapes do not match the signature.
    """
    infos = signature.inputs
    if body.is_row:
        columns = _columns(body.values, infos)
    elif isinstance(body.values, dict) and not is_binary(body.values):
        # Ignores unknown inputs, as TensorFlow Serving does.
        columns = {name: body.values[name] for name in infos if name in body.values}
    elif len(infos) == 1:
        columns = {next(iter(infos)): body.values}
    else:
        raise invalid(f'"{COLUMN}" must be an object with the inputs {sorted(infos)}.')
    unknown = set(columns) - set(infos)
    missing = set(infos) - set(columns)
    if unknown or missing:
        raise invalid(
            f"The inputs do not match the signature. Sent extra: "
            f"{abbreviated(sorted(unknown))}. Missing but required: {sorted(missing)}."
        )
    # Checked before values are converted, which is most of the work.
    shapes = {name: _shape(name, values) for name, values in columns.items()}
    for name, shape in shapes.items():
        if max_rows is not None:
            check_rows(shape[:1], max_rows)
        check_shape(name, infos[name], shape)
    return {
        name: _array(name, values, shapes[name], tf.as_dtype(infos[name].dtype))
        for name, values in columns.items()
    }


def _columns(rows: Any, infos: Mapping[str, Any]) -> dict[str, Any]:
    """Converts rows to one list per input."""
    if not isinstance(rows, list) or not rows:
        raise invalid(f'"{ROW}" must be a list with at least one instance.')
    if not any(_is_object(row) for row in rows):
        if len(infos) != 1:
            raise invalid(f"Each instance must be an object with {sorted(infos)}.")
        return {next(iter(infos)): rows}
    if not all(_is_object(row) and set(row) == set(rows[0]) for row in rows):
        raise invalid("All instances must be objects with the same inputs.")
    return {name: [row[name] for row in rows] for name in rows[0]}


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and not is_binary(value)


def is_binary(value: Any) -> bool:
    """Returns whether a value is a Base64 string."""
    return isinstance(value, dict) and set(value) == {"b64"}


def _shape(name: str, values: Any) -> list[int]:
    """Returns the shape of nested lists, judging by the first list of each level."""
    shape, first = [], values
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    if len(shape) > MAX_AXES:
        raise invalid(f"Input {name} has more than {MAX_AXES} axes.")
    return shape


def _array(name: str, values: Any, shape: list[int], dtype: tf.DType) -> np.ndarray:
    flat = _flattened(name, values, shape)
    convert = _converter(name, dtype)
    convertible = _convertible_types(dtype)
    array = np.empty(len(flat), dtype.as_numpy_dtype)
    for start in range(0, len(flat), _SLICE):
        part = flat[start : start + _SLICE]
        try:
            with np.errstate(over="raise"):
                if not convertible.issuperset(map(type, part)):
                    part = [convert(value) for value in part]
                array[start : start + _SLICE] = part
        except (OverflowError, FloatingPointError) as error:
            for value in part:
                convert(value)  # Raises for the first value that does not fit.
            raise invalid(f"Input {name} must be {dtype.name}: {error}") from None
    return array.reshape(shape)


def _convertible_types(dtype: tf.DType) -> frozenset[type]:
    """Returns the Python types that NumPy converts as `_converter` does."""
    if dtype == tf.bool:
        return frozenset([bool])
    if dtype.is_integer:
        return frozenset([int])
    return frozenset([int, float] if dtype.is_floating else [])


def _flattened(name: str, values: Any, shape: list[int]) -> list[Any]:
    """Checks that nested lists form an array and returns the values."""
    level = [values]
    for size in shape:
        if not all(isinstance(part, list) and len(part) == size for part in level):
            raise invalid(f"Input {name}: lists of one level must be equally long.")
        if len(level) == 1:  # Needs no copy.
            (level,) = level
            continue
        next_level: list[Any] = []
        for start in range(0, len(level), _SLICE):
            next_level += itertools.chain.from_iterable(level[start : start + _SLICE])
        level = next_level
    if any(isinstance(value, list) for value in level):
        raise invalid(f"Input {name}: lists of one level must be equally deep.")
    return level


def _converter(name: str, dtype: tf.DType) -> Any:
    """Returns a function that converts a JSON value to a dtype without coercion."""

    def type_error(value: Any) -> ServingError:
        kind = kind_of(value)
        return invalid(f"Input {name} must be {dtype.name}. Received: {kind}")

    def to_string(value: Any) -> bytes:
        if isinstance(value, str):
            # JSON can hold a lone surrogate, which is not valid text.
            return value.encode("utf-8", "surrogatepass")
        if not is_binary(value) or not isinstance(value["b64"], str):
            raise type_error(value)
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError):
            raise invalid(
                f"Input {name}: the value of b64 is not valid Base64."
            ) from None

    def to_bool(value: Any) -> bool:
        if not isinstance(value, bool):
            raise type_error(value)
        return value

    def to_integer(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise type_error(value)
        if not dtype.min <= value <= dtype.max:
            number = str(value)[:40]
            raise invalid(f"Input {name} must be {dtype.name}. Received: {number}")
        return value

    def to_float(value: Any) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise type_error(value)
        try:
            return float(value)
        except OverflowError:
            raise type_error(value) from None

    if dtype == tf.string:
        return to_string
    if dtype == tf.bool:
        return to_bool
    if dtype.is_integer:
        return to_integer
    if dtype.is_floating:
        return to_float
    raise invalid(f"Input {name} is {dtype.name}, which JSON cannot represent.")
