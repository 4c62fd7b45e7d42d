"""Requests and responses preserve tensor contents, over both protocols."""

import base64
import sys

import numpy as np
import pytest
import served
import tensorflow as tf

STRINGS = [b"nul\0\0", b"\xff\xfe", "ä".encode(), b"", b"\0", b"a"]


class Echo(tf.Module):
    """A model that returns its inputs, of any shape."""

    @tf.function(input_signature=[tf.TensorSpec(None, tf.string, name="x")])
    def text(self, x):
        return {"text": tf.identity(x), "text_bytes": tf.identity(x)}

    @tf.function(input_signature=[tf.TensorSpec(None, tf.float32, name="x")])
    def number(self, x):
        return {
            name: tf.cast(x, name)
            for name in ("float32", "int32", "int64", "bool", "float16", "complex64")
        }


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    base = tmp_path_factory.mktemp("echo")
    module = Echo()
    signatures = {"serving_default": module.text, "number": module.number}
    tf.saved_model.save(module, str(base / "1"), signatures=signatures)
    with served.server("--model_name=echo", f"--model_base_path={base}") as running:
        yield running


SHAPES = [(), (1,), (6,), (2, 3), (1, 2, 3), (0,), (3, 0)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_strings_of_any_shape_keep_their_bytes(server, shape):
    size = int(np.prod(shape))
    request = served.predict_request("echo")
    request.inputs["x"].dtype = tf.string.as_datatype_enum
    request.inputs["x"].tensor_shape.SetInParent()
    for axis in shape:
        request.inputs["x"].tensor_shape.dim.add(size=axis)
    request.inputs["x"].string_val.extend(STRINGS[:size])
    with server.channel() as channel:
        response = served.prediction(channel).Predict(request)
    for tensor in response.outputs.values():
        assert list(tensor.string_val) == STRINGS[:size]
        assert [dim.size for dim in tensor.tensor_shape.dim] == list(shape)
    binary = [{"b64": base64.b64encode(value).decode()} for value in STRINGS[:size]]
    texts = [value.decode("utf-8", "replace") for value in STRINGS[:size]]
    status, content = server.get(
        "/v1/models/echo:predict", {"inputs": nested(binary, shape)}
    )
    assert status == 200, content
    assert content["outputs"] == {
        "text": nested(texts, shape),
        "text_bytes": nested(binary, shape),
    }


def nested(flat, shape):
    """Returns values as nested lists, or a single value for a scalar."""
    if not shape:
        return flat[0]
    rows = np.arange(len(flat)).reshape(shape)
    return [nested([flat[i] for i in row.ravel()], shape[1:]) for row in rows]


def test_numbers_are_in_the_typed_field_of_their_dtype(server):
    for value in ([1.0, 0.0, -2.5], [[1.0], [0.0]], 1.0, []):
        request = served.predict_request("echo", "number", x=np.array(value, "float32"))
        with server.channel() as channel:
            outputs = served.prediction(channel).Predict(request).outputs
        flat = np.ravel(value)
        assert list(outputs["float32"].float_val) == flat.tolist()
        assert list(outputs["int32"].int_val) == flat.astype(int).tolist()
        assert list(outputs["int64"].int64_val) == flat.astype(int).tolist()
        assert list(outputs["bool"].bool_val) == (flat != 0).tolist()
        bits = flat.astype(np.float16).view(np.uint16).tolist()
        assert list(outputs["float16"].half_val) == bits
        parts = np.ravel(np.stack([flat, 0 * flat], axis=-1)).tolist()
        assert list(outputs["complex64"].scomplex_val) == parts
        assert not any(tensor.tensor_content for tensor in outputs.values())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
