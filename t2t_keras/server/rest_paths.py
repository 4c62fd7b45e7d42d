"""Paths of TensorFlow Serving's REST API."""

import re
from typing import NamedTuple, Self
from urllib.parse import unquote

from tensorflow_serving.apis.model_pb2 import ModelSpec

from t2t_keras.server.serving_errors import invalid

VERBS = ("predict", "classify", "regress")
_MODEL = re.compile(
    r"/v1/models(?:/(?P<name>[^/:]+)"
    r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
    rf"(?:/(?P<part>metadata|about)|:(?P<verb>{'|'.join(VERBS)}))?)?",
    # As in TensorFlow Serving, which then compares the last part as it is.
    re.IGNORECASE,
)


class ModelPath(NamedTuple):
    """Path of a model, of a part of its description, or of a method to call.

    Attributes:
        name: Name of the model, percent-encoded; None in the path of all models.
        version: Decimal digits of a version, or None.
        label: Label of a version, percent-encoded, or None.
        part: Part of the description, or None.
        verb: Method to call, or None. One of `VERBS` if written in lower case.
    """

    name: str | None
    version: str | None
    label: str | None
    part: str | None
    verb: str | None

    @classmethod
    def parse(cls, path: str) -> Self | None:
        """Parses a path as sent, not decoded: an encoded slash is part of a name.

        Returns:
            The path, or None if it is not one of a model.
        """
        match = _MODEL.fullmatch(path)
        return cls(**match.groupdict()) if match else None

    @property
    def method(self) -> str:
        """The HTTP method that the path supports."""
        return "POST" if self.verb else "GET"

    def model_spec(self) -> ModelSpec:
        """Returns the model, and the version or label if the path has one.

        Raises:
            ServingError: If the number of the version is too large.
        """
        spec = ModelSpec(name=unquote(self.name or ""))
        if self.version:
            digits = self.version.lstrip("0") or "0"
            if len(digits) > 19 or int(digits) >= 1 << 63:
                raise invalid(f"The version number {digits} is too large.")
            spec.version.value = int(digits)
        if self.label:
            spec.version_label = unquote(self.label)
        return spec
