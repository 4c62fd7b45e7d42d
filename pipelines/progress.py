"""Where a training run stands."""

import time
from collections.abc import Callable
from typing import Any

import keras

from t2t_keras.data.translation import Position
from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training.trainer import PLACE, Trainer, Votes


class Progress(keras.callbacks.Callback):
    """Where a run stands, and how much of its budget is spent.

    Args:
        budget: How long to train.
        trainer: Counts the steps.
        checkpoint_steps: Steps between validations, or None to go by time.
        checkpoint_minutes: Minutes between them otherwise.
        interrupted: Tells whether this process was asked to stop.
        is_chief: Whether this worker's clock counts.

    Attributes:
        position: Place in the data.
        epoch: Number of the interval between two validations, from 0, counted over
            all processes of the run: what callbacks know as the epoch.
    """

    def __init__(
        self,
        budget: TrainingBudget,
        trainer: Trainer,
        checkpoint_steps: int | None,
        checkpoint_minutes: float,
        interrupted: Callable[[], bool],
        is_chief: bool = True,
    ) -> None:
        super().__init__()
        self.position = Position()
        self.epoch = 0
        self._budget = budget
        self._trainer = trainer
        self._checkpoint_steps = checkpoint_steps
        self._checkpoint_minutes = checkpoint_minutes
        self._interrupted = interrupted
        self._is_chief = is_chief
        self._epochs = self._tokens = 0.0
        self._minutes_before = self._minutes_validated = 0.0
        self._started = time.monotonic()

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned in an earlier run."""
        self.position = Position(**state["position"])
        self._epochs = state["epochs"]
        self._tokens = state["tokens"]
        self._minutes_before = state["minutes"]
        # Earlier versions did not save these two.
        self._minutes_validated = state.get("minutes_validated", state["minutes"])
        self.epoch = state.get("epoch", 0)

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint has to keep."""
        return {
            "position": {"epoch": self.position.epoch, "batch": self.position.batch},
            "epochs": self._epochs,
            "tokens": self._tokens,
            "minutes": self._minutes(),
            "minutes_validated": self._minutes_validated,
            "epoch": self.epoch,
        }

    def _minutes(self) -> float:
        return self._minutes_before + (time.monotonic() - self._started) / 60

    def fraction(self, minutes: float | None = None) -> float:
        """Tells how much of the budget is spent.

        Args:
            minutes: To be taken for those trained. Default those of the clock.
        """
        return self._budget.fraction(
            self._trainer.step,
            self._epochs,
            self._tokens,
            self._minutes() if minutes is None else minutes,
        )

    def is_over(self) -> bool:
        """Tells whether the budget is spent, its minutes apart: clocks differ."""
        return self.fraction(minutes=0.0) >= 1

    def votes(self) -> Votes:
        """Tells what is to be done after the next step."""
        interval = self._minutes() - self._minutes_validated
        if self._checkpoint_steps:
            validate = (self._trainer.step + 1) % self._checkpoint_steps == 0
        else:
            validate = self._is_chief and interval >= self._checkpoint_minutes
        return Votes(
            validate=validate,
            end=self._is_chief and self.fraction() >= 1,
            interrupt=self._interrupted(),
        )

    def is_regular(self) -> bool:
        """Tells whether a validation now is one of those at regular intervals.

        With a number of steps between them, the validation at the end of the budget
        may be an extra one, which a run with a larger budget does not have.
        """
        return (
            not self._checkpoint_steps
            or self._trainer.step % self._checkpoint_steps == 0
        )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Ends an interval, unless the validation is an extra one."""
        if self.is_regular():
            self.epoch = epoch + 1
            self._minutes_validated = self._minutes()

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        """Notes the place in the data."""
        logs = logs or {}
        self._tokens += logs["tokens"]
        # Keras turns all logs into floats.
        place = {name: int(logs[name]) for name in PLACE}
        done = place["batch"] + 1
        self._epochs = place["epoch"] + done / place["batches"]
        if done == place["batches"]:
            self.position = Position(place["epoch"] + 1, 0)
        else:
            self.position = Position(place["epoch"], done)
