"""Keras must run on its TensorFlow backend."""

import json
import os
import sys
from pathlib import Path

from t2t_keras.errors import UserError


class WrongBackend(UserError, ImportError):
    """Keras is configured with another backend than TensorFlow."""


def require_tensorflow() -> None:
    """Checks the backend of Keras, before Keras is imported.

    Otherwise Keras fails because a package such as `jax` is missing or, if it is
    installed, somewhere inside a layer.

    Raises:
        WrongBackend: If it is not TensorFlow. The message says where it is set.
    """
    backend, origin = _configured()
    if backend != "tensorflow":
        raise WrongBackend(
            f"t2t_keras needs Keras with its TensorFlow backend, but {origin}. Set the "
            "environment variable KERAS_BACKEND=tensorflow."
        )


def _configured() -> tuple[str, str]:
    """Returns the backend and what sets it, in the order in which Keras looks."""
    if keras := sys.modules.get("keras"):
        backend = keras.config.backend()
        return backend, f"Keras was already imported with the backend {backend!r}"
    if backend := os.environ.get("KERAS_BACKEND"):
        return backend, f"the environment has KERAS_BACKEND={backend}"
    home = os.path.expanduser("~")
    home = os.path.join(home if os.access(home, os.W_OK) else "/tmp", ".keras")
    path = Path(os.environ.get("KERAS_HOME", home), "keras.json").expanduser()
    try:
        backend = json.loads(path.read_text()).get("backend", "tensorflow")
    except (OSError, ValueError):
        backend = "tensorflow"
    return backend, f"{path} has the backend {backend!r}"
