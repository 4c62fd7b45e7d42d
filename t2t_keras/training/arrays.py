"""Files of named arrays that appear whole or not at all, and say when damaged.

They are NumPy archives, whose members carry checksums, readable without this package.
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
    """Writes named arrays into a file that appears whole or not at all."""
    with atomic_writer(path) as file:
        names = np.array(json.dumps(sorted(arrays)))
        np.savez(file, **arrays, **{_NAMES: names})  # type: ignore[arg-type]


class DamagedCheckpoint(UserError):
    """A file that does not hold what was written to it."""


def load_arrays(
    path: str | Path, names: Iterable[str] | None = None
) -> dict[str, np.ndarray]:
    """Reads named arrays.

    Args:
        path: The file.
        names: Which of them to read, if they are there. Default all.

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
        if error.errno in (None, errno.EINVAL):  # Sent to a place that is none.
            raise DamagedCheckpoint(f"The checkpoint {path} is damaged.") from error
        with user_path(path, "read"):
            raise  # The disk's or the network's fault, not the file's.
    except Exception as error:  # zipfile, zlib and NumPy raise what they like.
        raise DamagedCheckpoint(f"The checkpoint {path} is damaged.") from error
    # The contents have checksums in the file; their names have not.
    written = arrays.pop(_NAMES, None)
    if written is None or str(written) != json.dumps(sorted(arrays)):
        raise DamagedCheckpoint(f"The checkpoint {path} is damaged: names are lost.")
    return arrays


def variable_arrays(variables: Iterable[keras.Variable]) -> dict[str, np.ndarray]:
    """Returns the values of variables under their paths."""
    return {variable.path: variable.numpy() for variable in variables}


def assign_arrays(
    variables: Iterable[keras.Variable], arrays: dict[str, np.ndarray], origin: Any
) -> None:
    """Gives variables the values that a file holds under their paths.

    Args:
        variables: The variables, all of which must be in the file.
        arrays: The file's content; more than the variables is no error.
        origin: The file's name, for the message.

    Raises:
        UserError: If a variable is missing or has another shape.
    """
    variables = list(variables)
    for variable in variables:
        array = arrays.get(variable.path)
        if array is None or array.shape != tuple(variable.shape):
            raise UserError(
                f"{origin} was made by another model: {variable.path} should have the "
                f"shape {tuple(variable.shape)}, but "
                + ("is missing." if array is None else f"has {array.shape}.")
            )
    for variable in variables:
        variable.assign(arrays[variable.path])
