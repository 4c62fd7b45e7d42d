"""Tensors as protocol buffers: what comes and goes over gRPC."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto

from t2t_keras.counted import counted
from t2t_keras.server.protobuf_limits import read_varint
from t2t_keras.server.saved_model import MOST_AXES, Arrays
from t2t_keras.server.serving_errors import ServingError, invalid, shown

_MOST_INPUTS = 1000
_STRING_BYTES = 8
"""What a string takes beside its characters, at least."""
_SLICE = 1 << 14
"""Values that are copied at a time, since no other thread of Python runs meanwhile."""

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
"""What a field holds instead of the values: the two parts of complex numbers, the bits
of small floats, the integers of quantized values."""


class Layout(NamedTuple):
    """What a TensorProto says that it holds.

    Attributes:
        label: What to call it in messages.
        dtype: Of its values.
        shape: Its size along each axis.
        number: How many values that is.
    """

    label: str
    dtype: tf.DType
    shape: list[int]
    number: int

    @property
    def bytes(self) -> int:
        """What its array takes, the characters of strings apart."""
        return self.number * (self.dtype.size or _STRING_BYTES)


def layouts(tensors: Mapping[str, TensorProto], max_bytes: int) -> dict[str, Layout]:
    """Reads what tensors say of themselves, without reading their values.

    A message of a few bytes can claim any shape.

    Args:
        tensors: By name.
        max_bytes: The most bytes that their arrays may take together.

    Raises:
        ServingError: If they would take more, or a shape or dtype is malformed.
    """
    if len(tensors) > _MOST_INPUTS:
        raise invalid(
            f"A request has at most {_MOST_INPUTS:,} inputs. Received: {len(tensors):,}"
        )
    found = {}
    left = max_bytes
    for name, tensor in tensors.items():
        label = f"Input {name[:100]}"
        dtype, shape = _dtype(label, tensor), _shape(label, tensor)
        found[name] = Layout(label, dtype, shape, _product(shape, max_bytes))
        left -= found[name].bytes
        if left < 0:
            raise _too_large(found[name], max_bytes)
    return found


def to_arrays(tensors: Mapping[str, TensorProto], max_bytes: int) -> Arrays:
    """Reads the tensors of a request.

    As in TensorFlow, the last value of a typed field is repeated where the shape has
    more, and an empty field stands for zeros.

    Args:
        tensors: By name.
        max_bytes: The most bytes that their arrays may take together, the strings
            included, each as often as it is repeated.

    Returns:
        Arrays by name; strings are bytes in arrays of objects.

    Raises:
        ServingError: If a tensor is malformed, or they are too large.
    """
    found = layouts(tensors, max_bytes)
    left = max_bytes - sum(layout.bytes for layout in found.values())
    arrays: Arrays = {}
    for name, layout in found.items():
        if layout.dtype == tf.string:
            strings = _strings(layout, tensors[name])
            left -= _characters(strings, layout.number)
            if left < 0:
                raise _too_large(layout, max_bytes)
            flat = _repeated(strings, np.dtype(object), layout.number, b"")
        else:
            flat = _numbers(layout, tensors[name])
        try:
            arrays[name] = flat.reshape(layout.shape)
        except ValueError as error:  # Such as an empty array with a vast axis.
            raise _wrong(layout, error) from None
    return arrays


def _too_large(layout: Layout, max_bytes: int) -> ServingError:
    return invalid(
        f"The inputs take more than a request may have, {max_bytes:,} bytes. "
        f"{layout.label} has the shape {shown(layout.shape)}."
    )


def _dtype(label: str, tensor: TensorProto) -> tf.DType:
    try:
        dtype = tf.as_dtype(tensor.dtype)
    except TypeError:
        raise invalid(f"{label} has the unknown dtype {tensor.dtype}.") from None
    if dtype.name not in _FIELDS:
        raise invalid(f"{label} has the dtype {dtype.name}, which cannot be sent.")
    return dtype


def _shape(label: str, tensor: TensorProto) -> list[int]:
    axes = len(tensor.tensor_shape.dim)
    if axes > MOST_AXES:
        raise invalid(f"{label} has at most {MOST_AXES} dimensions. Received: {axes:,}")
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    if tensor.tensor_shape.unknown_rank or any(size < 0 for size in shape):
        raise invalid(f"{label} has no definite shape. Received: {shown(shape)}")
    return shape


def _product(sizes: Sequence[int], most: int) -> int:
    """Multiplies, and stops beyond `most`."""
    if 0 in sizes:
        return 0
    number = 1
    for size in sizes:
        number *= size
        if number > most:
            break
    return number


def _wrong(layout: Layout, why: Any) -> ServingError:
    return invalid(f"{layout.label} is no tensor of {layout.dtype.name}: {why}")


def _numbers(layout: Layout, tensor: TensorProto) -> np.ndarray:
    """Reads the values of all dtypes but strings: `[number]`."""
    dtype, size = layout.dtype, layout.number
    numpy_dtype = np.dtype(dtype.as_numpy_dtype)
    content = tensor.tensor_content
    if content and size:
        if len(content) != size * numpy_dtype.itemsize:
            why = f"{len(content):,} bytes for {size:,} values"
            raise _wrong(layout, why)
        return np.frombuffer(content, numpy_dtype)
    values = getattr(tensor, _FIELDS[dtype.name])
    part = np.dtype(_PARTS.get(dtype.name, numpy_dtype))
    if isinstance(values, bytes):
        values = np.frombuffer(values, part)
    parts = numpy_dtype.itemsize // part.itemsize
    try:
        flat = _repeated(values, part, size * parts, 0, parts)
    except OverflowError as error:
        raise _wrong(layout, error) from None
    return flat.view(numpy_dtype)


def _repeated(
    values: Sequence[Any], dtype: np.dtype, size: int, empty: Any, parts: int = 1
) -> np.ndarray:
    """Copies values and repeats the last one, of so many parts: `[size]`."""
    array = np.full(size, empty, dtype)
    number = min(len(values), size) // parts * parts
    for start in range(0, number, _SLICE):
        stop = min(start + _SLICE, number)
        array[start:stop] = values[start:stop]
    if number:
        rest = array[number:].reshape(-1, parts)
        rest[:] = array[number - parts : number]
    return array


def _strings(layout: Layout, tensor: TensorProto) -> Sequence[bytes]:
    """Returns the strings of a tensor, which may be fewer than it has."""
    size = layout.number
    content = tensor.tensor_content
    if not content or not size:
        return tensor.string_val
    # The lengths of all strings, and then the strings.
    lengths, start = [], 0
    try:
        for _ in range(size):
            length, start = read_varint(content, start)
            lengths.append(length)
        if start + sum(lengths) != len(content):
            raise IndexError
    except IndexError:
        why = f"the content is not that of {counted(size, 'string')}"
        raise _wrong(layout, why) from None
    strings = []
    for length in lengths:
        strings.append(content[start : start + length])
        start += length
    return strings


def _characters(strings: Sequence[bytes], size: int) -> int:
    """Counts the bytes of strings, the last one repeated."""
    used = min(len(strings), size)
    if not used:
        return 0
    return sum(map(len, strings[:used])) + (size - used) * len(strings[used - 1])


def fill(tensor: TensorProto, array: np.ndarray) -> None:
    """Writes an array into a TensorProto, into the typed field of its dtype.

    That is where TensorFlow Serving's answers have their values.

    Args:
        tensor: An empty message.
        array: Of a dtype that TensorFlow has; objects are strings, as bytes.
    """
    is_string = array.dtype == object
    dtype = tf.string if is_string else tf.as_dtype(array.dtype)
    tensor.dtype = dtype.as_datatype_enum
    tensor.tensor_shape.SetInParent()  # Of a scalar, too.
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
