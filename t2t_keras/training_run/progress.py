"""Progress of a training run: position in the data, time, and spent budget."""

import time
from collections.abc import Callable
from typing import Any

import keras

from t2t_keras.data.batch_order import START, BatchOrder, DataPosition
from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training.trainer import Trainer
from t2t_keras.training.worker_agreement import Actions
from t2t_keras.training_run.cooldown import RunCooldown


class Progress(keras.callbacks.Callback):
    """Tracks the position of a run in the data and the spent part of its budget.

    Args:
        budget: The training budget.
        trainer: The trainer, which counts the steps.
        order: The order of the batches. Each step takes the next one.
        checkpoint_steps: Number of steps between validations. None to validate by
            time.
        checkpoint_minutes: Minutes between validations if `checkpoint_steps` is None.
        interrupted: Returns whether this process has been asked to stop.
        is_chief: Whether this worker is the chief, whose clock decides. Default True.
        cooldown_share: `share` of the `RunCooldown`. Default 0 (no cooldown).
        report: Called with a message when the cooldown begins. Default: no report.

    Attributes:
        cooldown: The cooldown of the learning rate.
        position: Position in the data.
        epoch: Number of intervals between validations completed by all processes of
            the run. Callbacks receive it as the epoch.
    """

    def __init__(
        self,
        budget: TrainingBudget,
        trainer: Trainer,
        order: BatchOrder,
        checkpoint_steps: int | None,
        checkpoint_minutes: float,
        interrupted: Callable[[], bool],
        is_chief: bool = True,
        cooldown_share: float = 0.0,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        super().__init__()
        self.cooldown = RunCooldown(budget, trainer, cooldown_share, report)
        self.position = START
        self.epoch = 0
        self._budget = budget
        self._trainer = trainer
        self._order = order
        self._checkpoint_steps = checkpoint_steps
        self._checkpoint_minutes = checkpoint_minutes
        self._interrupted = interrupted
        self._is_chief = is_chief
        self._tokens = 0.0
        self._minutes_before = self._minutes_validated = 0.0
        self._started = time.monotonic()

    def restore(self, state: dict[str, Any], stopped_early: bool = False) -> None:
        """Restores the state of an earlier process. All workers must call it.

        Early stopping that has been reached begins the cooldown, if one is configured.

        Args:
            state: Result of `state` in the earlier process.
            stopped_early: Whether early stopping has been reached. Default False.
        """
        self.position = DataPosition(**state["position"])
        self._tokens = state["tokens"]
        self._minutes_before = state["minutes"]
        # Earlier versions did not save these two.
        self._minutes_validated = state.get("minutes_validated", state["minutes"])
        self.epoch = state.get("epoch", 0)
        self.cooldown.restore(state.get("cooldown"), stopped_early)
        if stopped_early:
            self.cool_down(stopped_early=True)

    def state(self) -> dict[str, Any]:
        """Returns the state to save in a checkpoint."""
        return {
            "position": self.position._asdict(),
            # Not restored, because the position determines it. t2t-cost reads it.
            "epochs": self.epochs(),
            "tokens": self._tokens,
            "minutes": self._minutes(),
            "minutes_validated": self._minutes_validated,
            "epoch": self.epoch,
            "cooldown": self.cooldown.state(),
        }

    def _minutes(self) -> float:
        return self._minutes_before + (time.monotonic() - self._started) / 60

    @property
    def step(self) -> int:
        """Number of completed updates."""
        return self._trainer.step

    def epochs(self) -> float:
        """Returns the number of completed epochs, with fractions."""
        return self._order.epochs(self.position)

    def fraction(self, minutes: float | None = None) -> float:
        """Returns the fraction of the budget that is spent.

        Args:
            minutes: Minutes trained. Default: as measured.
        """
        spent = self._budget.fraction(
            self._trainer.step,
            self.epochs(),
            self._tokens,
            self._minutes() if minutes is None else minutes,
        )
        return max(spent, self.cooldown.fraction())

    def cool_down(self, stopped_early: bool) -> bool:
        """Begins the cooldown now; see `RunCooldown.begin`."""
        return self.cooldown.begin(self.fraction(), stopped_early)

    def is_over(self) -> bool:
        """Returns whether the budget is spent, ignoring minutes.

        The clocks of the workers differ, and all must return the same value.
        """
        return self.fraction(minutes=0.0) >= 1

    def requested_actions(self) -> Actions:
        """Returns the actions that this worker requests after the next step."""
        interval = self._minutes() - self._minutes_validated
        if self._checkpoint_steps:
            validate = (self._trainer.step + 1) % self._checkpoint_steps == 0
        else:
            validate = self._is_chief and interval >= self._checkpoint_minutes
        fraction = self.fraction()
        return Actions(
            validate=validate,
            end=self._is_chief and fraction >= 1,
            interrupt=self._interrupted(),
            cool_down=self._is_chief and self.cooldown.is_due(fraction),
        )

    def is_regular(self) -> bool:
        """Returns whether a validation at this step is a regular one.

        With `checkpoint_steps`, the validation at the end of the budget may be an extra
        one, which a run with a larger budget does not have.
        """
        return (
            not self._checkpoint_steps
            or self._trainer.step % self._checkpoint_steps == 0
        )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Completes the interval, unless the validation is an extra one."""
        if self.is_regular():
            self.epoch = epoch + 1
            self._minutes_validated = self._minutes()

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Counts the batch, even if its update was skipped."""
        self._tokens += (logs or {})["tokens"]
        self.position = self._order.after(self.position)
