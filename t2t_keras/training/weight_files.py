"""Files of named arrays: written atomically, checked for damage when read.

They are NumPy archives (.npz), whose members carry checksums. NumPy alone can read
them.
"""

import errno
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.files import atomic_writer, user_path

_NAMES = "names"


def save_arrays(path: str | Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes named arrays to a file atomically."""
    with atomic_writer(path) as file:
        names = np.array(json.dumps(sorted(arrays)))
        np.savez(file, **arrays, **{_NAMES: names})  # type: ignore[arg-type]


class DamagedCheckpoint(UserError):
    """A checkpoint file whose content was damaged after it was written."""


def load_arrays(
    path: str | Path, names: Iterable[str] | None = None
) -> dict[str, np.ndarray]:
    """Reads named arrays.

    Args:
        path: The file.
        names: Names of the arrays to read; missing ones are ignored. Default: all.

    Raises:
        DamagedCheckpoint: If the file is damaged.
        UserError: If it is missing.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            if names is not None:
                return {name: archive[name] for name in {*names} & {*archive.files}}
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError as error:
        raise UserError(f"No such checkpoint: {path}") from error
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # A seek out of range.
            raise DamagedCheckpoint(f"The checkpoint {path} is damaged.") from error
        with user_path(path, "read"):
            raise  # The disk's or the network's fault, not the file's.
    except Exception as error:  # zipfile, zlib and NumPy raise many types.
        raise DamagedCheckpoint(f"The checkpoint {path} is damaged.") from error
    # The archive has checksums of the contents, but not of the names.
    written = arrays.pop(_NAMES, None)
    if written is None or str(written) != json.dumps(sorted(arrays)):
        raise DamagedCheckpoint(
            f"The checkpoint {path} is damaged: array names are missing."
        )
    return arrays


def variable_arrays(variables: Iterable[keras.Variable]) -> dict[str, np.ndarray]:
    """Returns the values of variables by path."""
    return {variable.path: variable.numpy() for variable in variables}


def check_finite(variables: Iterable[keras.Variable]) -> None:
    """Rejects a model with non-finite weights, before it is exported.

    Args:
        variables: Variables of a model.

    Raises:
        FloatingPointError: If a value is not finite.
    """
    for variable in variables:
        if not np.isfinite(variable.numpy()).all():
            raise FloatingPointError(
                f"{variable.path} has non-finite values: the model is broken and was "
                "not exported."
            )


def assign_arrays(
    variables: Iterable[keras.Variable], arrays: dict[str, np.ndarray], origin: Any
) -> None:
    """Assigns arrays to the variables with the same paths.

    Args:
        variables: The variables. The file must hold all of them.
        arrays: The file's content. Further arrays are ignored.
        origin: Name of the file, for error messages.

    Raises:
        UserError: If a variable is missing or has another shape.
    """
    variables = list(variables)
    for variable in variables:
        array = arrays.get(variable.path)
        if array is None or array.shape != tuple(variable.shape):
            raise UserError(
                f"{origin} belongs to a different model: {variable.path} should have "
                f"shape {tuple(variable.shape)}, but "
                + ("is missing." if array is None else f"has shape {array.shape}.")
            )
    for variable in variables:
        variable.assign(arrays[variable.path])
