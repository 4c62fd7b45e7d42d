"""Checkpoints: files of named arrays that appear whole or not at all.

Weights and the rest of the state (optimizer, place in the data) are files of their
own: averaging wants many weights, going on wants one state. Both are NumPy archives,
whose members carry checksums, readable without this package.
"""

import contextlib
import errno
import json
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from t2t_keras.files import atomic_writer

LARGER_IS_BETTER = ("val_accuracy", "val_bleu")

_WEIGHTS = re.compile(r"weights-(\d{8})\.npz")
_NAMES = "names"
_METRICS = "metrics"
_PROGRESS = "progress"


def save_arrays(path: str | Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes named arrays into a file that appears whole or not at all."""
    with atomic_writer(path) as file:
        names = np.array(json.dumps(sorted(arrays)))
        np.savez(file, **arrays, **{_NAMES: names})  # type: ignore[arg-type]


class DamagedCheckpoint(ValueError):
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
        ValueError: If it is missing.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            if names is not None:
                return {name: archive[name] for name in {*names} & {*archive.files}}
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError as error:
        raise ValueError(f"No such checkpoint: {path}") from error
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # Sent to a place that is none.
            raise DamagedCheckpoint(f"The checkpoint {path} is damaged.") from error
        raise  # The disk's or the network's fault, not the file's.
    except Exception as error:  # zipfile, zlib and NumPy raise what they like.
        raise DamagedCheckpoint(
            f"The checkpoint {path} is damaged: {error}."
        ) from error
    # The contents have checksums in the file; their names have not.
    written = arrays.pop(_NAMES, None)
    if written is None or sorted(arrays) != json.loads(str(written)):
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
        keep_best: How many more to keep, the best by `metric`. Default 5.
        metric: The figure of the held-back data that tells which are the best; more
            is better of accuracy and BLEU, less of all others. Default "val_nll".
    """

    def __init__(
        self,
        directory: str | Path,
        keep: int = 20,
        keep_best: int = 5,
        metric: str = "val_nll",
    ) -> None:
        self.directory = Path(directory)
        self.keep = keep
        self.keep_best = keep_best
        self.metric = metric

    def weights_path(self, step: int) -> Path:
        """Returns the name of the weights after a step."""
        return self.directory / f"weights-{step:08d}.npz"

    def state_path(self, step: int) -> Path:
        """Returns the name of the state after a step."""
        return self.directory / f"state-{step:08d}.npz"

    @staticmethod
    def step_of(path: Path) -> int | None:
        """Returns the step that a file of weights is named after, if it is."""
        match = _WEIGHTS.fullmatch(path.name)
        return int(match[1]) if match else None

    def steps(self) -> list[int]:
        """Returns the steps of all weights, ascending."""
        steps = map(self.step_of, self.directory.glob("*.npz"))
        return sorted(step for step in steps if step is not None)

    def best_steps(self, number: int, metric: str | None = None) -> list[int]:
        """Returns the steps of the best weights, the best first.

        Args:
            number: How many, at most.
            metric: Which figure decides. Default that of the constructor.
        """
        metric = metric or self.metric
        sign = -1 if metric in LARGER_IS_BETTER else 1
        scored = []
        for step in self.steps():
            # Of several checkpoints equally good, the newest.
            value = self.metrics(step).get(metric, math.nan)
            if math.isfinite(value):
                scored.append((sign * value, -step))
        return [-step for _, step in sorted(scored)[:number]]

    def metrics(self, step: int) -> dict[str, float]:
        """Returns the figures of the held-back data that a checkpoint reached."""
        with contextlib.suppress(DamagedCheckpoint):
            arrays = load_arrays(self.weights_path(step), [_METRICS])
            return json.loads(str(arrays.get(_METRICS, "{}")))
        return {}

    def save(
        self,
        step: int,
        variables: Iterable[keras.Variable],
        state_variables: Iterable[keras.Variable],
        progress: dict[str, Any],
        metrics: dict[str, float] | None = None,
    ) -> Path:
        """Writes a checkpoint and removes those that are no longer wanted.

        Args:
            step: Number of updates done.
            variables: The model's: its weights, and the state of its dropout.
            state_variables: What else training needs to go on, such as the optimizer's.
            progress: Anything JSON can hold, such as the place in the data.
            metrics: Figures of the held-back data, named "val_...".

        Returns:
            The path of the weights.

        Raises:
            OSError: If the disk is full, or may not be written to; earlier
                checkpoints are left as they are.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        weights = variable_arrays(variables)
        weights[_METRICS] = np.array(json.dumps(metrics or {}))
        save_arrays(self.weights_path(step), weights)
        state = variable_arrays(state_variables)
        state[_PROGRESS] = np.array(json.dumps(progress))
        save_arrays(self.state_path(step), state)
        self._remove_unwanted()
        return self.weights_path(step)

    def _remove_unwanted(self) -> None:
        steps = self.steps()
        wanted = {*steps[-self.keep :], *self.best_steps(self.keep_best)}
        for step in steps:
            if step not in wanted:
                self.weights_path(step).unlink(missing_ok=True)
        # The newest may turn out to be damaged, and so may the one before.
        for path in sorted(self.directory.glob("state-*.npz"))[:-3]:
            path.unlink(missing_ok=True)

    def remove_half_written(self) -> None:
        """Removes what a killed run had not finished; it must be over."""
        for path in self.directory.glob(".*.npz.*"):
            path.unlink(missing_ok=True)

    def newest_whole(self, report: Callable[[str], None]) -> int | None:
        """Finds the checkpoint to go on from, and puts damaged newer ones aside.

        Args:
            report: Receives a line of text for every checkpoint that is damaged.

        Returns:
            Its step, or None if there is no checkpoint.

        Raises:
            ValueError: If there are checkpoints, and all of them are damaged.
        """
        resumable = [step for step in self.steps() if self.state_path(step).is_file()]
        for step in reversed(resumable):
            paths = self.weights_path(step), self.state_path(step)
            try:
                for path in paths:
                    load_arrays(path)
            except DamagedCheckpoint as error:
                report(f"{error} Going on from the one before.")
                # Steps to come must not be taken for those of another course.
                for path in paths:
                    path.rename(path.with_suffix(".damaged"))
                continue
            return step
        if resumable:
            raise ValueError(
                f"All checkpoints in {self.directory} are damaged. Remove them, or "
                "choose another --model_dir."
            )
        return None

    def progress(self, step: int) -> dict[str, Any]:
        """Returns the `progress` that was saved with a checkpoint.

        Raises:
            ValueError: If there is none, or it is damaged.
        """
        return json.loads(
            str(load_arrays(self.state_path(step), [_PROGRESS])[_PROGRESS])
        )

    def restore(
        self,
        step: int,
        variables: Iterable[keras.Variable],
        state_variables: Iterable[keras.Variable],
    ) -> dict[str, Any]:
        """Gives all variables the values of a checkpoint.

        Args:
            step: Which one.
            variables: As of `save`.
            state_variables: As of `save`.

        Returns:
            The `progress` that was saved.

        Raises:
            ValueError: If there is no such checkpoint, or it is another model's.
        """
        weights = load_arrays(self.weights_path(step))
        state = load_arrays(self.state_path(step))
        assign_arrays(variables, weights, self.weights_path(step))
        assign_arrays(state_variables, state, self.state_path(step))
        return json.loads(str(state[_PROGRESS]))
