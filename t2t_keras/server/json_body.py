"""Parses the JSON bodies of TensorFlow Serving's REST API."""

import json
import math
from typing import Any, NamedTuple

from t2t_keras.server.serving_errors import invalid

ROW, COLUMN = "instances", "inputs"

_FREE_COUNT = 100_000
_BYTES_PER_LIST, _BYTES_PER_KEY = 8, 32


class Body(NamedTuple):
    """Body of a predict request.

    Attributes:
        signature_name: Name of the signature; empty for the default.
        values: Value of "instances" or "inputs".
        is_row: Whether the request uses "instances"; the response uses the same form.
    """

    signature_name: str
    values: Any
    is_row: bool


def parse(body: bytes | bytearray) -> Body:
    """Parses the body of a predict request.

    Raises:
        ServingError: If the body is not JSON or not of the expected form.
    """
    request, signature_name = read_object(body)
    if (ROW in request) == (COLUMN in request):
        raise invalid(f'The body must have either "{ROW}" or "{COLUMN}".')
    is_row = ROW in request
    return Body(signature_name, request[ROW if is_row else COLUMN], is_row)


def read_object(body: bytes | bytearray) -> tuple[dict[str, Any], str]:
    """Parses the body of any request.

    Returns:
        The JSON object and the signature's name, empty for the default.

    Raises:
        ServingError: If the body is not a JSON object or too expensive to parse.
    """
    _check_structure(body)
    try:
        # Python functions as hooks let other threads run in between.
        request = json.loads(
            body,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_decimal,
            parse_constant=_constant,
        )
    except RecursionError:
        raise invalid("JSON Parse error: The value is nested too deeply.") from None
    except ValueError as error:
        raise invalid(f"JSON Parse error: {error}") from None
    if not isinstance(request, dict):
        raise invalid("The body must be a JSON object. Received: " + kind_of(request))
    signature_name = request.get("signature_name", "")
    if not isinstance(signature_name, str):
        raise invalid(
            f"signature_name must be a string. Received: {kind_of(signature_name)}"
        )
    return request, signature_name


def _check_structure(body: bytes | bytearray) -> None:
    """Limits lists and keys before parsing: they take much more memory than text.

    An empty list takes 2 bytes in the body, and 64 bytes once parsed.
    """
    lists = body.count(b"[") + body.count(b"{")
    keys = body.count(b":")
    if lists > max(_FREE_COUNT, len(body) // _BYTES_PER_LIST):
        raise invalid(
            f"The body has {lists:,} brackets, too many for its {len(body):,} bytes: "
            f"at most one in {_BYTES_PER_LIST} bytes."
        )
    if keys > max(_FREE_COUNT, len(body) // _BYTES_PER_KEY):
        raise invalid(
            f"The body has {keys:,} colons, too many for its {len(body):,} bytes: "
            f"at most one in {_BYTES_PER_KEY} bytes."
        )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("An object contains a key twice.")
    return values


def _integer(text: str) -> int:
    return int(text)


def _decimal(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"The number {text[:40]} is too large.")
    return value


def _constant(text: str) -> float:
    return float(text)


def kind_of(value: Any) -> str:
    """Describes a JSON value for an error message."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    if value is None:
        return "null"
    if type(value) in kinds:
        return kinds[type(value)]
    return f"the number {str(value)[:40]}"
