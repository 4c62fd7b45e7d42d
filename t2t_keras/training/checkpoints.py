"""Checkpoints: what is kept of a run, and from which of them it continues.

Weights and the rest of the state (optimizer, place in the data) are files of their
own: averaging wants many weights, going on wants one state.
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
from t2t_keras.training.arrays import (
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
        return _step_of(path, "weights")

    def steps(self) -> list[int]:
        """Returns the steps of all weights, ascending."""
        return self._steps_of("weights")

    def _steps_of(self, kind: str) -> list[int]:
        steps = (_step_of(path, kind) for path in self.directory.glob("*.npz"))
        return sorted(step for step in steps if step is not None)

    def _resumable(self) -> list[int]:
        """Returns the steps that have both weights and state, ascending."""
        return sorted({*self.steps()} & {*self._steps_of("state")})

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
        # The state comes first: a run that is killed in between leaves a state alone,
        # which is of no value, and never weights from which it cannot continue.
        # Weights that had this name already do not belong to the new state.
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
        """Removes what is not to be kept after a step; what is newer stays."""
        steps = [each for each in self.steps() if each <= step]
        wanted = {*steps[-self.keep :], *self.best_steps(self.keep_best)}
        for each in steps:
            if each not in wanted:
                self.weights_path(each).unlink(missing_ok=True)
        # The newest may turn out to be damaged, and so may the one before.
        kept = [each for each in self._resumable() if each <= step][-_STATES_KEPT:]
        for each in self._steps_of("state"):
            if each <= step and each not in kept:
                self.state_path(each).unlink(missing_ok=True)

    def remove_half_written(self) -> None:
        """Removes what a killed run had not finished; it must be over."""
        for path in self.directory.glob(".*.npz.*"):
            path.unlink(missing_ok=True)

    def newest_whole(self, report: Callable[[str], None]) -> int | None:
        """Finds the checkpoint to go on from, and puts newer ones aside.

        Newer ones are damaged, or weights without a state. The steps to come must not
        be taken for theirs: not by an average, and not as the latest.

        Args:
            report: Receives a line of text for every file that is damaged, and for
                newer weights without a state.

        Returns:
            Its step, or None if there is no checkpoint.

        Raises:
            UserError: If there are checkpoints, but all of them are damaged or lack
                their state; so too ever after, until somebody removes them.
        """
        damaged: list[Path] = []
        newer: list[int] = []
        for step in reversed(self._resumable()):
            found = self._damaged_files(step, report)
            if not found:
                for each in newer:
                    _put_aside([self.weights_path(each), self.state_path(each)])
                without = [self.weights_path(n) for n in self.steps() if n > step]
                if without:
                    report(
                        f"{without[-1]} has no state to continue from: it is put aside "
                        "as *.stateless."
                    )
                _put_aside(without, ".stateless")
                return step
            damaged += found
            newer.append(step)
        # What is whole keeps its name: weights can still be translated with.
        _put_aside(damaged)
        self._refuse_remains()
        return None

    def _damaged_files(self, step: int, report: Callable[[str], None]) -> list[Path]:
        damaged = []
        for path in (self.weights_path(step), self.state_path(step)):
            try:
                load_arrays(path)
            except DamagedCheckpoint as error:
                report(f"{error} It is put aside as *.damaged.")
                damaged.append(path)
        return damaged

    def _refuse_remains(self) -> None:
        """Raises a `UserError` if there are checkpoints, none of which is whole."""
        damaged = any(self.directory.glob("*.damaged"))
        steps = self.steps()
        if not damaged and not steps:
            return
        reason = (
            f"All checkpoints in {self.directory} are damaged (*.damaged)."
            if damaged
            else f"There are weights in {self.directory}, but no state (state-*.npz) "
            "that belongs to them, which is needed to continue."
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
        """Gives all variables the values of a checkpoint.

        Args:
            step: Which one.
            variables: As of `save`.
            state_variables: As of `save`.

        Returns:
            The `progress` that was saved.

        Raises:
            UserError: If there is no such checkpoint, or it is another model's.
        """
        weights = load_arrays(self.weights_path(step))
        state = load_arrays(self.state_path(step))
        assign_arrays(variables, weights, self.weights_path(step))
        assign_arrays(state_variables, state, self.state_path(step))
        return json.loads(str(state[_PROGRESS]))


def _step_of(path: Path, kind: str) -> int | None:
    match = re.fullmatch(rf"{kind}-(\d{{8,}})\.npz", path.name)
    return int(match[1]) if match else None


def _put_aside(paths: Iterable[Path], suffix: str = ".damaged") -> None:
    for path in paths:
        path.rename(path.with_suffix(suffix))
