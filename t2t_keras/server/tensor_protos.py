"""Conversion between TensorProtos and NumPy arrays."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto

from t2t_keras.plurals import counted
from t2t_keras.server.protobuf_limits import read_varint
from t2t_keras.server.saved_model import MAX_AXES, Arrays
from t2t_keras.server.serving_errors import ServingError, abbreviated, invalid

_MAX_INPUTS = 1000
_STRING_BYTES = 8
"""Minimum overhead of a string in addition to its characters."""
_SLICE = 1 << 14
"""Number of values copied per step; other Python threads run between steps."""

_FLOAT8 = ("e5m2", "e4m3fn", "e4m3fnuz", "e4m3b11fnuz", "e5m2fnuz")
_FIELDS = {
    "float32": "float_val",
    "float64": "double_val",
    "int64": "int64_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    "bool": "bool_val",
    "string": "string_val",
    "complex64": "scomplex_val",
    "complex128": "dcomplex_val",
    "float16": "half_val",
    "bfloat16": "half_val",
    **{f"int{bits}": "int_val" for bits in (2, 4, 8, 16, 32)},
    **{f"uint{bits}": "int_val" for bits in (2, 4, 8, 16)},
    **{f"qint{bits}": "int_val" for bits in (8, 16, 32)},
    **{f"quint{bits}": "int_val" for bits in (8, 16)},
    **{f"float8_{kind}": "float8_val" for kind in _FLOAT8},
}
"""The field of TensorProto for each dtype, as in TensorFlow's own `tensor.cc`."""

_PARTS = {
    "complex64": "float32",
    "complex128": "float64",
    "float16": "uint16",
    "bfloat16": "uint16",
    **{f"qint{bits}": f"int{bits}" for bits in (8, 16, 32)},
    **{f"quint{bits}": f"uint{bits}" for bits in (8, 16)},
    **{f"float8_{kind}": "uint8" for kind in _FLOAT8},
}
"""Dtype of a field's elements if it is not that of the values: the parts of complex
numbers, the bits of small floats, the integers of quantized values."""


class Layout(NamedTuple):
    """Declared dtype and shape of a TensorProto.

    Attributes:
        label: Name of the tensor in messages.
        dtype: Dtype of the values.
        shape: Size of each axis.
        number: Number of values.
    """

    label: str
    dtype: tf.DType
    shape: list[int]
    number: int

    @property
    def bytes(self) -> int:
        """Size of the array in bytes, without the characters of strings."""
        return self.number * (self.dtype.size or _STRING_BYTES)


def read_layouts(
    tensors: Mapping[str, TensorProto], max_bytes: int
) -> dict[str, Layout]:
    """Reads the dtypes and shapes of tensors, without their values.

    A message of a few bytes can declare any shape.

    Args:
        tensors: Tensors by name.
        max_bytes: Maximum total size of the arrays in bytes.

    Raises:
        ServingError: If the arrays would be larger, or a shape or dtype is malformed.
    """
    if len(tensors) > _MAX_INPUTS:
        raise invalid(
            f"A request may have at most {_MAX_INPUTS:,} inputs. "
            f"Received: {len(tensors):,}"
        )
    layouts = {}
    remaining = max_bytes
    for name, tensor in tensors.items():
        label = f"Input {name[:100]}"
        dtype, shape = _dtype(label, tensor), _shape(label, tensor)
        layouts[name] = Layout(label, dtype, shape, _product(shape, max_bytes))
        remaining -= layouts[name].bytes
        if remaining < 0:
            raise _too_large(layouts[name], max_bytes)
    return layouts


def to_arrays(tensors: Mapping[str, TensorProto], max_bytes: int) -> Arrays:
    """Converts the tensors of a request to arrays.

    As in TensorFlow, the last value of a typed field is repeated if the shape has more
    values, and an empty field stands for zeros.

    Args:
        tensors: Tensors by name.
        max_bytes: Maximum total size of the arrays in bytes, including strings, which
            count as often as they are repeated.

    Returns:
        Arrays by name; strings are bytes in object arrays.

    Raises:
        ServingError: If a tensor is malformed or the arrays are too large.
    """
    layouts = read_layouts(tensors, max_bytes)
    remaining = max_bytes - sum(layout.bytes for layout in layouts.values())
    arrays: Arrays = {}
    for name, layout in layouts.items():
        if layout.dtype == tf.string:
            strings = _read_strings(layout, tensors[name])
            remaining -= _string_bytes(strings, layout.number)
            if remaining < 0:
                raise _too_large(layout, max_bytes)
            flat = _repeat_last(strings, np.dtype(object), layout.number, b"")
        else:
            flat = _read_numbers(layout, tensors[name])
        try:
            arrays[name] = flat.reshape(layout.shape)
        except ValueError as error:  # For example an empty array with a huge axis.
            raise _invalid_tensor(layout, error) from None
    return arrays


def _too_large(layout: Layout, max_bytes: int) -> ServingError:
    return invalid(
        f"The inputs take more than the maximum of {max_bytes:,} bytes. "
        f"{layout.label} has shape {abbreviated(layout.shape)}."
    )


def _dtype(label: str, tensor: TensorProto) -> tf.DType:
    try:
        dtype = tf.as_dtype(tensor.dtype)
    except TypeError:
        raise invalid(f"{label} has the unknown dtype {tensor.dtype}.") from None
    if dtype.name not in _FIELDS:
        raise invalid(f"{label} has dtype {dtype.name}, which cannot be sent.")
    return dtype


def _shape(label: str, tensor: TensorProto) -> list[int]:
    axes = len(tensor.tensor_shape.dim)
    if axes > MAX_AXES:
        raise invalid(
            f"{label} may have at most {MAX_AXES} dimensions. Received: {axes:,}"
        )
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    if tensor.tensor_shape.unknown_rank or any(size < 0 for size in shape):
        raise invalid(
            f"{label} must have a fully defined shape. Received: {abbreviated(shape)}"
        )
    return shape


def _product(sizes: Sequence[int], limit: int) -> int:
    """Returns the product of sizes; stops once it exceeds `limit`."""
    if 0 in sizes:
        return 0
    number = 1
    for size in sizes:
        number *= size
        if number > limit:
            break
    return number


def _invalid_tensor(layout: Layout, reason: Any) -> ServingError:
    return invalid(
        f"{layout.label} is not a valid {layout.dtype.name} tensor: {reason}"
    )


def _read_numbers(layout: Layout, tensor: TensorProto) -> np.ndarray:
    """Reads the values of any dtype except strings: `[number]`."""
    dtype, size = layout.dtype, layout.number
    numpy_dtype = np.dtype(dtype.as_numpy_dtype)
    content = tensor.tensor_content
    if content and size:
        if len(content) != size * numpy_dtype.itemsize:
            reason = f"{len(content):,} bytes for {size:,} values"
            raise _invalid_tensor(layout, reason)
        return np.frombuffer(content, numpy_dtype)
    values = getattr(tensor, _FIELDS[dtype.name])
    part = np.dtype(_PARTS.get(dtype.name, numpy_dtype))
    if isinstance(values, bytes):
        values = np.frombuffer(values, part)
    parts = numpy_dtype.itemsize // part.itemsize
    try:
        flat = _repeat_last(values, part, size * parts, 0, parts)
    except OverflowError as error:
        raise _invalid_tensor(layout, error) from None
    return flat.view(numpy_dtype)


def _repeat_last(
    values: Sequence[Any], dtype: np.dtype, size: int, empty: Any, parts: int = 1
) -> np.ndarray:
    """Copies values and repeats the last one, which has `parts` elements: `[size]`."""
    array = np.full(size, empty, dtype)
    number = min(len(values), size) // parts * parts
    for start in range(0, number, _SLICE):
        stop = min(start + _SLICE, number)
        array[start:stop] = values[start:stop]
    if number:
        rest = array[number:].reshape(-1, parts)
        rest[:] = array[number - parts : number]
    return array


def _read_strings(layout: Layout, tensor: TensorProto) -> Sequence[bytes]:
    """Returns the strings of a tensor, possibly fewer than its shape requires."""
    size = layout.number
    content = tensor.tensor_content
    if not content or not size:
        return tensor.string_val
    # The lengths of all strings, followed by the strings.
    lengths, start = [], 0
    try:
        for _ in range(size):
            length, start = read_varint(content, start)
            lengths.append(length)
        if start + sum(lengths) != len(content):
            raise IndexError
    except IndexError:
        reason = f"the content does not hold {counted(size, 'string')}"
        raise _invalid_tensor(layout, reason) from None
    strings = []
    for length in lengths:
        strings.append(content[start : start + length])
        start += length
    return strings


def _string_bytes(strings: Sequence[bytes], size: int) -> int:
    """Returns the total bytes of strings, with the last one repeated."""
    used = min(len(strings), size)
    if not used:
        return 0
    return sum(map(len, strings[:used])) + (size - used) * len(strings[used - 1])


def write_tensor(tensor: TensorProto, array: np.ndarray) -> None:
    """Writes an array to the typed field of a TensorProto.

    TensorFlow Serving's responses use the typed fields, too.

    Args:
        tensor: An empty message.
        array: Array of a TensorFlow dtype; object arrays hold strings as bytes.
    """
    is_string = array.dtype == object
    dtype = tf.string if is_string else tf.as_dtype(array.dtype)
    tensor.dtype = dtype.as_datatype_enum
    tensor.tensor_shape.SetInParent()  # Scalars have a shape, too.
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    flat = np.ascontiguousarray(array).reshape(-1)
    if dtype.name in _PARTS:
        flat = flat.view(_PARTS[dtype.name])
    field = _FIELDS[dtype.name]
    if field == "float8_val":
        tensor.float8_val = flat.tobytes()
        return
    values = getattr(tensor, field)
    for start in range(0, flat.size, _SLICE):
        values.extend(flat[start : start + _SLICE].tolist())
