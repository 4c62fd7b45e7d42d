"""JSON and tensors, as specified by TensorFlow Serving's api_rest.md."""

import json
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef

from t2t_keras.server import json_response
from t2t_keras.server.json_body import parse
from t2t_keras.server.json_tensors import to_arrays
from t2t_keras.server.serving_errors import ServingError


def signature(**dtypes):
    definition = SignatureDef()
    for name, dtype in dtypes.items():
        definition.inputs[name].dtype = tf.as_dtype(dtype).as_datatype_enum
        definition.inputs[name].tensor_shape.unknown_rank = True
    return definition


def read(text, **dtypes):
    return to_arrays(parse(text.encode()), signature(**dtypes), None)


def to_json(outputs, is_row, max_bytes=1 << 20):
    return json_response.to_json(outputs, is_row, max_bytes)


def test_rows_of_one_input_need_no_name():
    arrays = read('{"instances": ["foo", "bar"]}', tag="string")
    assert arrays["tag"].tolist() == [b"foo", b"bar"]
    arrays = read('{"instances": [[[1, 2]], [[3, 4]]]}', x="int32")
    assert arrays["x"].tolist() == [[[1, 2]], [[3, 4]]]
    assert arrays["x"].dtype == np.int32
    assert read('{"instances": [{"x": 1}, {"x": 2}]}', x="int64")["x"].tolist() == [
        1,
        2,
    ]


def test_rows_and_columns_of_several_inputs_are_equivalent():
    rows = """{"instances": [
        {"tag": "foo", "signal": [1, 2], "sensor": [[1, 2], [3, 4]]},
        {"tag": "bar", "signal": [3, 4], "sensor": [[4, 5], [6, 8]]}]}"""
    columns = """{"inputs": {"tag": ["foo", "bar"], "signal": [[1, 2], [3, 4]],
        "sensor": [[[1, 2], [3, 4]], [[4, 5], [6, 8]]]}}"""
    dtypes = {"tag": "string", "signal": "float32", "sensor": "float64"}
    by_rows, by_columns = read(rows, **dtypes), read(columns, **dtypes)
    assert set(by_rows) == set(by_columns) == set(dtypes)
    for name in dtypes:
        np.testing.assert_array_equal(by_rows[name], by_columns[name])
        assert by_rows[name].dtype == by_columns[name].dtype


def test_column_may_be_a_scalar_or_have_any_shape():
    assert read('{"inputs": 3.5}', x="float32")["x"].shape == ()
    assert read('{"inputs": {"x": [[], []]}}', x="float32")["x"].shape == (2, 0)


def test_binary_values_are_base64():
    text = '{"instances": [{"b64": "//4="}, "plain"]}'
    assert read(text, image="string")["image"].tolist() == [b"\xff\xfe", b"plain"]
    assert read('{"inputs": {"b64": "YQ=="}}', image="string")["image"] == b"a"


def test_non_finite_numbers_are_accepted():
    array = read('{"inputs": [NaN, Infinity, -Infinity, 1e3, 2]}', x="float32")["x"]
    np.testing.assert_array_equal(array, [np.nan, np.inf, -np.inf, 1000, 2])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "JSON Parse error"),
        ('{"inputs": 1} x', "JSON Parse error"),
        ("[" * 100_000, "nested too deeply"),
        ('{"inputs": ' + "[" * 900 + "]" * 900 + "}", "shape|deep|dimension|axes"),
        ('"text"', "a JSON object. Received: a string"),
        ("{}", 'either "instances" or "inputs"'),
        ('{"inputs": 1, "instances": [1]}', 'either "instances" or "inputs"'),
        ('{"inputs": 1, "signature_name": 3}', "signature_name must be a string"),
        ('{"instances": 5}', "at least one instance"),
        ('{"instances": []}', "at least one instance"),
        ('{"instances": [{"y": 1}]}', r"Sent extra: \['y'\]. Missing .* \['x'\]"),
        ('{"instances": [{"x": 1}, 2]}', "All instances must be objects"),
        ('{"instances": [{"x": 1}, {"z": 2}]}', "with the same inputs"),
        ('{"inputs": [[1, 2], [3]]}', "equally long"),
        ('{"inputs": [[1, 2], 3]}', "equally long"),
        ('{"inputs": [1, [2]]}', "equally deep"),
        ('{"inputs": 1.5}', "x must be int32. Received: the number 1.5"),
        ('{"inputs": true}', "x must be int32. Received: a boolean"),
        ('{"inputs": "1"}', "x must be int32. Received: a string"),
        ('{"inputs": null}', "x must be int32. Received: null"),
        ('{"inputs": 2147483648}', "x must be int32. Received: 2147483648"),
        ('{"inputs": ' + "9" * 5000 + "}", "JSON Parse error|x must be int32"),
    ],
)
def test_invalid_bodies_are_rejected_with_a_message(text, message):
    with pytest.raises(ServingError, match=message) as raised:
        read(text, x="int32")
    assert raised.value.code.name == "INVALID_ARGUMENT"
    assert len(raised.value.message) < 300


LARGE = 3_000_000


def rejection(text):
    """Returns the message of the error for a body with a vector of float32."""
    definition = signature(x="float32")
    del definition.inputs["x"].tensor_shape.dim[:]
    definition.inputs["x"].tensor_shape.unknown_rank = False
    definition.inputs["x"].tensor_shape.dim.add(size=-1)
    with pytest.raises(ServingError) as raised:
        to_arrays(parse(text.encode()), definition, 1024)
    assert raised.value.code.name == "INVALID_ARGUMENT"
    assert len(raised.value.message) < 300
    return raised.value.message


# Built during the test, so that collecting the tests does not allocate 50 MB.
@pytest.mark.parametrize(
    ("start", "repeated", "end", "message"),
    [
        ('{"instances": [', "[],", "[]]}", "3,000,003 brackets, too many"),
        ('{"inputs": [', "{},", "{}]}", "3,000,003 brackets, too many"),
        ('{"inputs": [', "0,", "0]}", "at most 1,024 rows. Received: 3,000,001"),
        ('{"instances": [', "0,", "0]}", "at most 1,024 rows"),
    ],
)
def test_too_large_bodies_are_rejected(start, repeated, end, message):
    assert message in rejection(start + repeated * LARGE + end)


def test_too_many_names_are_rejected():
    names = ",".join(f'"{number}":""' for number in range(200_000))
    assert "200,000 colons, too many" in rejection(f"{{{names}}}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"inputs": 1, "inputs": 2}', "a key twice"),
        ('{"instances": [{"x": 1, "x": 2}]}', "a key twice"),
        ('{"inputs": 1e400}', "1e400 is too large"),
        ('{"inputs": [1, -1e39]}', "x must be float32: overflow"),
        (
            '{"inputs": [1, ' + "9" * 4000 + "]}",
            "x must be float32. Received: the number 9",
        ),
        ('{"inputs": [[[1]]]}', "x must have shape [any]. Received: [1, 1, 1]"),
    ],
    ids=lambda text: text[:20],
)
def test_too_large_values_are_rejected(text, message):
    assert message in rejection(text)


def test_conversion_in_steps_keeps_all_values():
    rng = np.random.default_rng(0)
    for dtype in ("int8", "int64", "uint64", "float32", "float64", "bfloat16"):
        values = rng.integers(0, 100, (300, 200)).tolist()
        text = json.dumps({"inputs": values})
        array = read(text, x=dtype)["x"]
        assert array.dtype == tf.as_dtype(dtype).as_numpy_dtype
        assert array.tolist() == values
    words = [[f"{number} ä"] * 100 for number in range(300)]
    array = read(json.dumps({"instances": words}), x="string")["x"]
    assert [[word.decode() for word in row] for row in array] == words
    values[200][7] = "a"
    with pytest.raises(ServingError, match=r"x must be float32\. Received: a string"):
        read(json.dumps({"inputs": values}), x="float32")


def test_strings_are_not_coerced_and_base64_is_checked():
    with pytest.raises(
        ServingError, match=r"x must be string\. Received: the number 1"
    ):
        read('{"inputs": [1]}', x="string")
    with pytest.raises(ServingError, match="not valid Base64"):
        read('{"inputs": [{"b64": "*"}]}', x="string")
    with pytest.raises(ServingError, match="which JSON cannot represent"):
        read('{"inputs": [1]}', x="complex64")
    with pytest.raises(ServingError, match=r"object with the inputs \['x', 'y'\]"):
        read('{"inputs": [1]}', x="int32", y="int32")


def test_responses_name_outputs_unless_there_is_only_one():
    single = {"y": np.array([0.1, 2], np.float32)}
    assert json.loads(to_json(single, is_row=True)) == {"predictions": [0.1, 2.0]}
    assert json.loads(to_json(single, is_row=False)) == {"outputs": [0.1, 2.0]}
    several = {
        "y": np.array([[1], [2]]),
        "image_bytes": np.array([b"a", b"\xff"], object),
    }
    assert json.loads(to_json(several, is_row=True)) == {
        "predictions": [
            {"y": [1], "image_bytes": {"b64": "YQ=="}},
            {"y": [2], "image_bytes": {"b64": "/w=="}},
        ]
    }
    assert json.loads(to_json(several, is_row=False))["outputs"]["y"] == [[1], [2]]


@pytest.mark.parametrize("is_row", [False, True])
def test_response_does_not_depend_on_the_step_size(is_row, monkeypatch):
    rng = np.random.default_rng(0)
    text = np.empty(7, object)
    text[:] = [f"{number}\0".encode() for number in range(7)]
    outputs = {
        "number": np.arange(7),
        "text": text,
        "scores_bytes": text.reshape(7, 1),
        "rows": rng.normal(0, 1, (7, 5, 3)).astype(np.float32),
        "none": np.zeros((7, 0)),
    }
    complete = to_json(outputs, is_row)
    separate = [to_json({name: array}, is_row) for name, array in outputs.items()]
    for number in (1, 2, 7, 30, 100):
        monkeypatch.setattr(json_response, "_SLICE", number)
        assert to_json(outputs, is_row) == complete
        for (name, array), expected in zip(outputs.items(), separate, strict=True):
            assert to_json({name: array}, is_row) == expected
    assert to_json(outputs, is_row, len(complete)) == complete
    with pytest.raises(ServingError, match="more than 500 bytes"):
        to_json(outputs, is_row, 500)


def test_responses_contain_nan_and_reject_rows_without_batch_axis():
    assert to_json({"y": np.array([np.nan, -np.inf])}, False) == (
        b'{"outputs": [NaN, -Infinity]}'
    )
    text = to_json({"text": np.array(["ä".encode(), b"\xff"], object)}, True)
    assert json.loads(text) == {"predictions": ["ä", "\ufffd"]}
    with pytest.raises(ServingError, match="no common first axis"):
        to_json({"y": np.array(1.0)}, True)
    with pytest.raises(ServingError, match="no common first axis"):
        to_json({"y": np.zeros(2), "z": np.zeros(3)}, True)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
