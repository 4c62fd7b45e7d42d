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
        self._budget = budget
        self._trainer = trainer
        self._checkpoint_steps = checkpoint_steps
        self._checkpoint_minutes = checkpoint_minutes
        self._interrupted = interrupted
        self._is_chief = is_chief
        self._epochs = self._tokens = 0.0
        self._minutes_before = 0.0
        self._started = self._interval_started = time.monotonic()

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over what `state` returned in an earlier run."""
        self.position = Position(**state["position"])
        self._epochs = state["epochs"]
        self._tokens = state["tokens"]
        self._minutes_before = state["minutes"]

    def state(self) -> dict[str, Any]:
        """Returns what a checkpoint has to keep."""
        return {
            "position": {"epoch": self.position.epoch, "batch": self.position.batch},
            "epochs": self._epochs,
            "tokens": self._tokens,
            "minutes": self._minutes(),
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
        interval = (time.monotonic() - self._interval_started) / 60
        if self._checkpoint_steps:
            validate = (self._trainer.step + 1) % self._checkpoint_steps == 0
        else:
            validate = self._is_chief and interval >= self._checkpoint_minutes
        return Votes(
            validate=validate,
            end=self._is_chief and self.fraction() >= 1,
            interrupt=self._interrupted(),
        )

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Starts the clock of an interval, when the validation before it is over."""
        self._interval_started = time.monotonic()

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
