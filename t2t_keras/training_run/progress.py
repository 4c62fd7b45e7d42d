"""Progress of a training run: position in the data, time, and spent budget."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import keras

from t2t_keras.data.batch_order import START, BatchOrder, DataPosition
from t2t_keras.errors import UserError
from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training.learning_rate_schedule import Cooldown
from t2t_keras.training.trainer import Actions, Trainer


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
        cooldown_share: Fraction of the training, at its end, over which the learning
            rate decreases to zero. Default 0 (no cooldown).
        report: Called with a message when the cooldown begins. Default: no report.

    Attributes:
        cooldown: The cooldown, or None before it begins.
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
        if not 0 <= cooldown_share < 1:
            raise UserError(
                f"cooldown must be at least 0 and below 1. Received: {cooldown_share}"
            )
        self.cooldown: Cooldown | None = None
        self._cooldown_share = cooldown_share
        self._report = report
        self._cooldown_of: dict[str, Any] | None = None
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

        A saved cooldown continues only if its cause still holds: early stopping, or the
        same budget. With a larger budget, training continues at the scheduled learning
        rate.

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
        saved = state.get("cooldown")
        if saved and self._cooldown_share:
            budget = saved["budget"]
            if stopped_early if budget is None else budget == asdict(self._budget):
                self.cooldown = Cooldown(saved["start"], saved["end"])
                self._cooldown_of = budget
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
            "cooldown": self.cooldown
            and {**self.cooldown._asdict(), "budget": self._cooldown_of},
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
        step = self._trainer.step
        spent = self._budget.fraction(
            step,
            self.epochs(),
            self._tokens,
            self._minutes() if minutes is None else minutes,
        )
        cooled = min(1.0, step / self.cooldown.end) if self.cooldown else 0.0
        return max(spent, cooled)

    def cool_down(self, stopped_early: bool) -> bool:
        """Begins the cooldown if one is configured. All workers must call it.

        Args:
            stopped_early: Whether early stopping is the cause, rather than the budget.

        Returns:
            True if training continues with a learning rate that decreases to zero.
        """
        if self._cooldown_share and not self.cooldown:
            # The fraction may depend on the clock, and the chief's clock decides.
            plan = Cooldown.plan(
                self._trainer.step, self.fraction(), self._cooldown_share
            )
            end = self._trainer.broadcast_from_chief(plan.end)
            self.cooldown = plan._replace(end=end)
            self._cooldown_of = None if stopped_early else asdict(self._budget)
            self._report(
                f"Cooldown: the learning rate decreases to zero at step {end:,}."
            )
        return self.is_cooling_down()

    def is_cooling_down(self) -> bool:
        """Returns whether a cooldown is in progress."""
        return self.cooldown is not None and self._trainer.step < self.cooldown.end

    def rate_factor(self) -> float:
        """Returns the factor of the learning rate for the next update."""
        return self.cooldown.rate_factor(self._trainer.step) if self.cooldown else 1.0

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
            cool_down=bool(self._cooldown_share)
            and self.cooldown is None
            and self._is_chief
            and fraction >= 1 - self._cooldown_share,
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
