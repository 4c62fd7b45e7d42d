"""Checkpoints: saving, retention, and choosing the one to resume from.

Weights and the remaining state (optimizer, position in the data) are separate files:
averaging needs the weights of many steps, resuming needs the state of one.
"""

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.training.weight_files import (
    DamagedCheckpoint,
    assign_arrays,
    load_arrays,
    save_arrays,
    variable_arrays,
)

LARGER_IS_BETTER = ("val_accuracy", "val_bleu")

_STATES_KEPT = 3
_METRICS = "metrics"
_PROGRESS = "progress"


class CheckpointStore:
    """The checkpoints of one run.

    Args:
        directory: Directory of the checkpoints; created if missing.
        keep: Number of newest checkpoints to keep. Default 20.
        keep_best: Number of best checkpoints by `metric` to keep as well. Default 5.
        metric: Metric of the held-out data that ranks checkpoints. Higher is better for
            accuracy and BLEU, lower for all others. Default "val_nll".
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
        """Returns the path of the weights of a step."""
        return self.directory / f"weights-{step:08d}.npz"

    def state_path(self, step: int) -> Path:
        """Returns the path of the state of a step."""
        return self.directory / f"state-{step:08d}.npz"

    @staticmethod
    def step_of(path: Path) -> int | None:
        """Returns the step in the name of a weight file, or None for other names."""
        return _step_of(path, "weights")

    def steps(self) -> list[int]:
        """Returns the steps of all weight files, ascending."""
        return self._steps_of("weights")

    def _steps_of(self, kind: str) -> list[int]:
        steps = (_step_of(path, kind) for path in self.directory.glob("*.npz"))
        return sorted(step for step in steps if step is not None)

    def _resumable(self) -> list[int]:
        """Returns the steps that have both weights and state, ascending."""
        return sorted({*self.steps()} & {*self._steps_of("state")})

    def best_steps(self, number: int, metric: str | None = None) -> list[int]:
        """Returns the steps of the best checkpoints, best first.

        Args:
            number: Maximum number of steps.
            metric: Metric to rank by. Default: that of the constructor.
        """
        metric = metric or self.metric
        sign = -1 if metric in LARGER_IS_BETTER else 1
        scored = []
        for step in self.steps():
            # The newest of equally good checkpoints comes first.
            value = self.metrics(step).get(metric, math.nan)
            if math.isfinite(value):
                scored.append((sign * value, -step))
        return [-step for _, step in sorted(scored)[:number]]

    def metrics(self, step: int) -> dict[str, float]:
        """Returns the metrics of the held-out data saved with a checkpoint."""
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
        """Writes a checkpoint and removes those that need not be kept.

        Args:
            step: Number of completed updates.
            variables: The model's variables: weights and random states of dropout.
            state_variables: Further variables to restore, such as the optimizer's.
            progress: State serializable as JSON, such as the position in the data.
            metrics: Metrics of the held-out data, named "val_...".

        Returns:
            The path of the weights.

        Raises:
            OSError: If the disk is full or not writable. Earlier checkpoints are left
                unchanged.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        # The state comes first: a run that is killed in between leaves a useless state
        # without weights, but never weights that it cannot resume from. Existing
        # weights of the same step do not belong to the new state.
        self.weights_path(step).unlink(missing_ok=True)
        state = variable_arrays(state_variables)
        state[_PROGRESS] = np.array(json.dumps(progress))
        save_arrays(self.state_path(step), state)
        weights = variable_arrays(variables)
        weights[_METRICS] = np.array(json.dumps(metrics or {}))
        try:
            save_arrays(self.weights_path(step), weights)
        except BaseException:
            self.state_path(step).unlink(missing_ok=True)
            raise
        self._remove_unwanted(step)
        return self.weights_path(step)

    def _remove_unwanted(self, step: int) -> None:
        """Removes checkpoints up to a step that need not be kept."""
        steps = [each for each in self.steps() if each <= step]
        wanted = {*steps[-self.keep :], *self.best_steps(self.keep_best)}
        for each in steps:
            if each not in wanted:
                self.weights_path(each).unlink(missing_ok=True)
        # Several states, since the newest ones may turn out to be damaged.
        kept = [each for each in self._resumable() if each <= step][-_STATES_KEPT:]
        for each in self._steps_of("state"):
            if each <= step and each not in kept:
                self.state_path(each).unlink(missing_ok=True)

    def remove_unfinished_files(self) -> None:
        """Removes unfinished files of a killed run, which must have ended."""
        for path in self.directory.glob(".*.npz.*"):
            path.unlink(missing_ok=True)

    def newest_resumable(self, report: Callable[[str], None]) -> int | None:
        """Finds the checkpoint to resume from, and renames newer ones.

        The newer ones are damaged, or are weights without a state. They are renamed, so
        that they are neither averaged with the checkpoints of the resumed run nor
        mistaken for its newest one.

        Args:
            report: Receives a line of text for each damaged file, and for newer
                weights without a state.

        Returns:
            The step, or None if there is no checkpoint.

        Raises:
            UserError: If there are checkpoints, but all of them are damaged or lack
                their state. Later calls raise it too, until the user removes them.
        """
        damaged: list[Path] = []
        newer: list[int] = []
        for step in reversed(self._resumable()):
            found = self._damaged_files(step, report)
            if not found:
                for each in newer:
                    _rename_unusable([self.weights_path(each), self.state_path(each)])
                without = [self.weights_path(n) for n in self.steps() if n > step]
                if without:
                    report(
                        f"{without[-1]} has no state to resume from. It is renamed to "
                        "*.stateless."
                    )
                _rename_unusable(without, ".stateless")
                return step
            damaged += found
            newer.append(step)
        # Undamaged files keep their names: the weights can still translate.
        _rename_unusable(damaged)
        self._refuse_unusable()
        return None

    def _damaged_files(self, step: int, report: Callable[[str], None]) -> list[Path]:
        damaged = []
        for path in (self.weights_path(step), self.state_path(step)):
            try:
                load_arrays(path)
            except DamagedCheckpoint as error:
                report(f"{error} It is renamed to *.damaged.")
                damaged.append(path)
        return damaged

    def _refuse_unusable(self) -> None:
        """Raises a `UserError` if checkpoints remain that cannot be resumed from."""
        damaged = any(self.directory.glob("*.damaged"))
        steps = self.steps()
        if not damaged and not steps:
            return
        reason = (
            f"All checkpoints in {self.directory} are damaged (*.damaged)."
            if damaged
            else f"There are weights in {self.directory}, but no state (state-*.npz) "
            "that belongs to them, which is needed to resume."
        )
        if steps:
            reason += (
                f" To start a new training from the weights of step {steps[-1]:,}, "
                f"pass --init_from={self.directory.parent} and another --model_dir."
            )
        raise UserError(f"{reason} To start over here, remove {self.directory}.")

    def progress(self, step: int) -> dict[str, Any]:
        """Returns the `progress` that was saved with a checkpoint.

        Raises:
            UserError: If there is none, or it is damaged.
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
        """Restores all variables from a checkpoint.

        Args:
            step: Step of the checkpoint.
            variables: As for `save`.
            state_variables: As for `save`.

        Returns:
            The saved `progress`.

        Raises:
            UserError: If there is no such checkpoint, or it belongs to another model.
        """
        weights = load_arrays(self.weights_path(step))
        state = load_arrays(self.state_path(step))
        assign_arrays(variables, weights, self.weights_path(step))
        assign_arrays(state_variables, state, self.state_path(step))
        return json.loads(str(state[_PROGRESS]))


def _step_of(path: Path, kind: str) -> int | None:
    match = re.fullmatch(rf"{kind}-(\d{{8,}})\.npz", path.name)
    return int(match[1]) if match else None


def _rename_unusable(paths: Iterable[Path], suffix: str = ".damaged") -> None:
    for path in paths:
        path.rename(path.with_suffix(suffix))
