"""Examples in JSON, in the format of TensorFlow Serving's REST API."""

import base64
import binascii
import json
from typing import Any

import numpy as np
from tensorflow.core.example import example_pb2, feature_pb2
from tensorflow_serving.apis import classification_pb2, input_pb2

from t2t_keras.server.json_body import kind_of, read_object
from t2t_keras.server.json_tensors import is_binary
from t2t_keras.server.serving_errors import invalid
from t2t_keras.server.tf_examples import Result

_EXAMPLES, _CONTEXT = "examples", "context"
_INT64 = 1 << 63


def parse_examples(body: bytes | bytearray) -> tuple[str, input_pb2.Input]:
    """Parses the body of a classify or regress request.

    Returns:
        The signature's name, empty for the default, and the Examples.

    Raises:
        ServingError: If the body is not JSON or not of the expected form.
    """
    request, signature_name = read_object(body)
    rows = request.get(_EXAMPLES)
    if not isinstance(rows, list) or not rows:
        raise invalid(
            f'The body must have "{_EXAMPLES}", a list with at least one Example.'
        )
    examples_input = input_pb2.Input()
    if _CONTEXT in request:
        examples_input.example_list_with_context.context.CopyFrom(
            _example(request[_CONTEXT])
        )
        examples = examples_input.example_list_with_context.examples
    else:
        examples = examples_input.example_list.examples
    for row in rows:
        examples.append(_example(row))
    return signature_name, examples_input


def _example(value: Any) -> example_pb2.Example:
    if not isinstance(value, dict):
        raise invalid(f"An Example must be a JSON object. Received: {kind_of(value)}")
    example = example_pb2.Example()
    for name, content in value.items():
        values = content if isinstance(content, list) else [content]
        try:
            feature = example.features.feature[name]
        except ValueError:  # A lone surrogate, which JSON can hold.
            raise invalid(f"Feature name {name[:100]!r} is not valid text.") from None
        for item in values:
            _add(name, feature, item)
    return example


def _add(name: str, feature: feature_pb2.Feature, value: Any) -> None:
    """Adds a value to a feature, whose values must all be of the same type."""
    content: int | float | bytes
    if isinstance(value, bool):
        kind, content = "int64_list", int(value)
    elif isinstance(value, int):
        if not -_INT64 <= value < _INT64:
            raise invalid(f"Feature {name[:100]}: integers must fit into int64.")
        kind, content = "int64_list", value
    elif isinstance(value, float):
        kind, content = "float_list", value
    elif isinstance(value, str):
        kind, content = "bytes_list", value.encode("utf-8", "surrogatepass")
    elif is_binary(value) and isinstance(value["b64"], str):
        try:
            kind, content = "bytes_list", base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError):
            raise invalid(
                f"Feature {name[:100]}: the value of b64 is not valid Base64."
            ) from None
    else:
        raise invalid(f"Feature {name[:100]} must not contain {kind_of(value)}.")
    if feature.WhichOneof("kind") not in (None, kind):
        raise invalid(
            f"Feature {name[:100]}: all values must be of the same type. Integers and "
            "decimals are different types."
        )
    getattr(feature, kind).value.append(content)


def results_to_json(result: Result) -> bytes:
    """Converts the result of Classify or Regress to JSON."""
    rows: list[Any]
    if isinstance(result, classification_pb2.ClassificationResult):
        rows = [
            [[entry.label, _decimal(entry.score)] for entry in row.classes]
            for row in result.classifications
        ]
    else:
        rows = [_decimal(entry.value) for entry in result.regressions]
    return json.dumps({"results": rows}, ensure_ascii=False).encode()


def _decimal(value: float) -> float:
    # The shortest decimal of the float32 value, not of its double.
    return float(str(np.float32(value)))
