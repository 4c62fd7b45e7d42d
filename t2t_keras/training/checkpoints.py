"""Checkpoints: files of named arrays that appear whole or not at all.

Weights and the rest of the state (optimizer, place in the data) are files of their
own: averaging wants many weights, going on wants one state. Both are NumPy archives,
whose members carry checksums, readable without this package.
"""

import json
import re
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from t2t_keras.files import atomic_writer

_WEIGHTS = re.compile(r"weights-(\d{8})\.npz")


def save_arrays(path: str | Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes named arrays into a file that appears whole or not at all."""
    with atomic_writer(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def load_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """Reads named arrays.

    Raises:
        ValueError: If the file is missing or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError as error:
        raise ValueError(f"No such checkpoint: {path}") from error
    except PermissionError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
        raise ValueError(f"The checkpoint {path} is damaged: {error}") from error


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
        ValueError: If a variable is missing or has another shape.
    """
    variables = list(variables)
    for variable in variables:
        array = arrays.get(variable.path)
        if array is None or array.shape != tuple(variable.shape):
            raise ValueError(
                f"{origin} was made by another model: {variable.path} should have the "
                f"shape {tuple(variable.shape)}, but "
                + ("is missing." if array is None else f"has {array.shape}.")
            )
    for variable in variables:
        variable.assign(arrays[variable.path])


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        directory: Where they lie; made if need be.
        keep: How many weights to keep, the newest. Default 20.
    """

    def __init__(self, directory: str | Path, keep: int = 20) -> None:
        self.directory = Path(directory)
        self.keep = keep

    def weights_path(self, step: int) -> Path:
        """Returns the name of the weights after a step."""
        return self.directory / f"weights-{step:08d}.npz"

    def state_path(self, step: int) -> Path:
        """Returns the name of the state after a step."""
        return self.directory / f"state-{step:08d}.npz"

    def steps(self) -> list[int]:
        """Returns the steps of all weights, ascending."""
        matches = (_WEIGHTS.fullmatch(p.name) for p in self.directory.glob("*.npz"))
        return sorted(int(match[1]) for match in matches if match)

    def save(
        self,
        step: int,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        progress: dict[str, Any],
    ) -> Path:
        """Writes a checkpoint and removes those that are no longer wanted.

        Args:
            step: Number of updates done.
            model: Its weights, and the state of its dropout, are saved.
            optimizer: Its state is saved.
            progress: Anything JSON can hold, such as the place in the data.

        Returns:
            The path of the weights.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        save_arrays(self.weights_path(step), variable_arrays(model.variables))
        state = variable_arrays(optimizer.variables)
        state["progress"] = np.array(json.dumps(progress))
        save_arrays(self.state_path(step), state)
        steps = self.steps()
        for old in steps[: -self.keep]:
            self.weights_path(old).unlink(missing_ok=True)
        for old in steps[:-2]:
            self.state_path(old).unlink(missing_ok=True)
        return self.weights_path(step)

    def restore(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer
    ) -> dict[str, Any] | None:
        """Sets model and optimizer to the newest checkpoint.

        Returns:
            The `progress` that was saved, or None if there is no checkpoint.

        Raises:
            ValueError: If the checkpoint is damaged or another model's.
        """
        resumable = [step for step in self.steps() if self.state_path(step).is_file()]
        if not resumable:
            return None
        step = resumable[-1]
        weights = load_arrays(self.weights_path(step))
        state = load_arrays(self.state_path(step))
        assign_arrays(model.variables, weights, self.weights_path(step))
        assign_arrays(optimizer.variables, state, self.state_path(step))
        return json.loads(str(state["progress"]))
