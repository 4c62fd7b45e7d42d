"""TensorProtos are read like TensorFlow and written like TensorFlow Serving."""

import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto

from t2t_keras.server.serving_errors import ServingError
from t2t_keras.server.tensor_protos import to_arrays, write_tensor

NUMBERS = [
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
]
FIELDS = {
    "float16": "half_val",
    "bfloat16": "half_val",
    "float32": "float_val",
    "float64": "double_val",
    "complex64": "scomplex_val",
    "complex128": "dcomplex_val",
    "bool": "bool_val",
    "int64": "int64_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    "string": "string_val",
}
STRINGS = [b"a", b"", b"nul\0\0", b"\xff\xfe", "ä".encode(), b"\0"]


def proto(dtype, shape, **fields):
    tensor = TensorProto(dtype=tf.as_dtype(dtype).as_datatype_enum, **fields)
    tensor.tensor_shape.SetInParent()
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    return tensor


def read(tensor, max_bytes=1 << 20):
    return to_arrays({"x": tensor}, max_bytes)["x"]


def parsed(tensor):
    """Returns the array that TensorFlow reads from a message."""
    dtype = tf.as_dtype(tensor.dtype)
    return tf.io.parse_tensor(tensor.SerializeToString(), dtype).numpy()


def examples(dtype):
    """Returns arrays of several ranks, empty ones and ones with extreme values."""
    rng = np.random.default_rng(0)
    numpy_dtype = tf.as_dtype(dtype).as_numpy_dtype
    values = rng.normal(0, 50, 24).astype(numpy_dtype)
    if dtype.startswith("complex"):
        values = values + 1j * rng.normal(0, 50, 24).astype(numpy_dtype)
        values = values.astype(numpy_dtype)
    elif "int" in dtype:
        info = np.iinfo(numpy_dtype)
        values = np.r_[values[:22], np.array([info.min, info.max], numpy_dtype)]
    elif dtype != "bool":
        values[:3] = [np.nan, np.inf, -np.inf]
    return [values[0], values[:1], values, values.reshape(2, 3, 4), values[:0]]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_responses_use_typed_fields_and_round_trip(dtype):
    for array in examples(dtype):
        tensor = TensorProto()
        write_tensor(tensor, np.asarray(array))
        field = FIELDS.get(dtype, "int_val")
        parts = 2 if dtype.startswith("complex") else 1
        assert len(getattr(tensor, field)) == np.size(array) * parts
        assert not tensor.tensor_content
        for result in (read(tensor), parsed(tensor)):
            assert result.dtype == array.dtype
            assert result.shape == array.shape
            assert result.tobytes() == array.tobytes()


def test_strings_keep_every_byte():
    for shape in ((), (1,), (6,), (2, 3), (0, 3)):
        array = np.empty(shape, object)
        array[...] = np.array(STRINGS, object)[: array.size].reshape(shape)
        tensor = TensorProto()
        write_tensor(tensor, array)
        assert list(tensor.string_val) == STRINGS[: array.size]
        for result in (read(tensor), read(packed(tensor))):
            assert result.dtype == object
            assert result.shape == shape
            assert result.ravel().tolist() == STRINGS[: array.size]


def packed(tensor):
    """Moves strings to `tensor_content`, as TensorFlow's C++ API can."""
    strings = list(tensor.string_val)
    content = bytes(map(len, strings)) + b"".join(strings)
    assert all(len(string) < 128 for string in strings)
    moved = TensorProto(dtype=tensor.dtype, tensor_shape=tensor.tensor_shape)
    moved.tensor_content = content
    return moved


@pytest.mark.parametrize(
    "tensor",
    [
        proto("float32", [2, 3], float_val=[1, 2]),
        proto("float32", [3]),
        proto("float32", [2], float_val=[1, 2, 3]),
        proto("float32", [0, 3], float_val=[1]),
        proto("bool", [4], bool_val=[False, True]),
        proto("float16", [3], half_val=[0x3C00]),
        proto("bfloat16", [3], half_val=[0x3F80, 0xBF80]),
        proto("complex64", [3], scomplex_val=[1, 2, 3, 4]),
        proto("complex64", [2], scomplex_val=[1, 2, 3]),
        proto("complex128", [2]),
        proto("uint32", [3], uint32_val=[2**32 - 1]),
        proto("uint64", [3], uint64_val=[2**64 - 1]),
        proto("string", [3], string_val=[b"a", b"b\0"]),
        proto("string", [3]),
        proto("int16", [2], tensor_content=b"\1\0\2\0"),
        proto("qint8", [3], int_val=[-1, 5]),
        proto("float8_e5m2", [3], float8_val=b"\x3c\x40"),
    ],
    ids=lambda tensor: str(tensor).replace("\n", " ")[:60],
)
def test_omitted_values_are_filled_in_like_in_tensorflow(tensor):
    result, expected = read(tensor), parsed(tensor)
    if (
        result.dtype.names
    ):  # A quantized number, which only TensorFlow tells from others.
        result = result.view(expected.dtype)
    assert result.dtype == expected.dtype
    assert result.tolist() == expected.tolist()


HUGE = [2**62] * 120_000


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (proto("float32", HUGE), "at most 64 dimensions. Received: 120,000"),
        (proto("string", HUGE[:65]), "at most 64 dimensions"),
        (proto("float32", HUGE[:60]), "more than the maximum of"),
        (proto("string", [2**62]), "more than the maximum of"),
        (proto("int8", [2**20 + 1]), "more than the maximum of"),
        (proto("string", [1000], string_val=[b"a" * 2000]), "more than"),
        (proto("float32", [*HUGE[:3], 0]), "is not a valid float32 tensor"),
        (proto("float32", [3, -1]), r"fully defined shape. Received: \[3, -1\]"),
        (proto("float32", [-(2**63)] * 50), "fully defined shape.* and 40 more"),
        (proto("float32", [2], tensor_content=b"12345"), "5 bytes for 2 values"),
        (proto("string", [2], tensor_content=b"\1\1a"), "the content does not hold 2"),
        (proto("string", [2], tensor_content=b"\1"), "the content does not hold 2"),
        (
            proto("string", [1], tensor_content=b"\xff" * 20),
            "the content does not hold",
        ),
        (proto("int8", [1], int_val=[300]), "is not a valid int8 tensor"),
        (proto("uint8", [1], int_val=[-1]), "is not a valid uint8 tensor"),
        (proto("float16", [1], half_val=[1 << 16]), "is not a valid float16 tensor"),
        (TensorProto(dtype=0), "unknown dtype 0"),
        (TensorProto(dtype=99), "unknown dtype 99"),
        (TensorProto(dtype=20), "unknown dtype 20|cannot be sent"),
        (TensorProto(dtype=101), "float32_ref, which cannot be sent"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_malformed_tensors_are_rejected_with_a_short_message(tensor, message):
    with pytest.raises(ServingError, match=message) as raised:
        read(tensor)
    assert raised.value.code.name == "INVALID_ARGUMENT"
    assert len(raised.value.message) < 400


def test_unknown_rank_is_rejected():
    tensor = proto("float32", [], float_val=[1])
    tensor.tensor_shape.unknown_rank = True
    with pytest.raises(ServingError, match="fully defined shape"):
        read(tensor)


def test_total_size_and_number_of_inputs_are_limited():
    half_of_limit = proto("int8", [600])
    assert read(half_of_limit, 1000).shape == (600,)
    with pytest.raises(ServingError, match=r"1,000 bytes. Input b"):
        to_arrays({"a": half_of_limit, "b": half_of_limit}, 1000)
    many = {str(number): proto("int8", []) for number in range(1001)}
    with pytest.raises(ServingError, match="at most 1,000 inputs"):
        to_arrays(many, 1 << 20)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
