"""Progress of a training run."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import keras

from t2t_keras.data.batch_order import START, BatchOrder, DataPosition
from t2t_keras.errors import UserError
from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training.learning_rate_schedule import Cooldown
from t2t_keras.training.trainer import Trainer, Votes


class Progress(keras.callbacks.Callback):
    """Where a run stands, and how much of its budget is spent.

    Args:
        budget: How long to train.
        trainer: Counts the steps.
        order: The order of the batches, of which each step takes the next.
        checkpoint_steps: Steps between validations, or None to go by time.
        checkpoint_minutes: Minutes between them otherwise.
        interrupted: Returns whether this process was asked to stop.
        is_chief: Whether this worker's clock counts.
        cooldown_share: Share of the training, at its end, over which the learning rate
            falls to zero. Default 0: none.
        report: Receives a line of text when it begins. Default: nobody does.

    Attributes:
        cooldown: The cooldown, once it has begun.
        position: Place in the data.
        epoch: Number of the interval between two validations, from 0, counted over
            all processes of the run: what callbacks know as the epoch.
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
        """Takes over what `state` returned in an earlier process; all workers call it.

        A cooldown goes on only if its cause is still there: early stopping, or the same
        budget. With a larger budget, training goes on at the usual learning rate.

        Args:
            state: What `state` returned.
            stopped_early: Whether early stopping has ended the usual learning rate.
                Default False.
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
        """Returns what a checkpoint has to keep."""
        return {
            "position": self.position._asdict(),
            # Not restored: it follows from the position. t2t-cost reads it.
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
        """Number of updates done."""
        return self._trainer.step

    def epochs(self) -> float:
        """Returns the passes over the data that are done, with fractions."""
        return self._order.epochs(self.position)

    def fraction(self, minutes: float | None = None) -> float:
        """Returns the fraction of the budget that is spent.

        Args:
            minutes: To be taken for those trained. Default those of the clock.
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
        """Begins the cooldown, if there is to be one; all workers call it.

        Args:
            stopped_early: Whether early stopping is the cause, rather than the budget.

        Returns:
            Whether training goes on, with a learning rate that falls to zero.
        """
        if self._cooldown_share and not self.cooldown:
            # The chief's clock may count.
            plan = Cooldown.plan(
                self._trainer.step, self.fraction(), self._cooldown_share
            )
            end = self._trainer.of_chief(plan.end)
            self.cooldown = plan._replace(end=end)
            self._cooldown_of = None if stopped_early else asdict(self._budget)
            self._report(f"The learning rate falls to zero until step {end:,}.")
        return self.is_cooling_down()

    def is_cooling_down(self) -> bool:
        """Returns whether a cooldown has begun and is not over."""
        return self.cooldown is not None and self._trainer.step < self.cooldown.end

    def rate_factor(self) -> float:
        """Returns what the learning rate of the next update is multiplied by."""
        return self.cooldown.rate_factor(self._trainer.step) if self.cooldown else 1.0

    def is_over(self) -> bool:
        """Returns whether the budget is spent, except its minutes: clocks differ."""
        return self.fraction(minutes=0.0) >= 1

    def votes(self) -> Votes:
        """Returns this worker's votes on what to do after the next step."""
        interval = self._minutes() - self._minutes_validated
        if self._checkpoint_steps:
            validate = (self._trainer.step + 1) % self._checkpoint_steps == 0
        else:
            validate = self._is_chief and interval >= self._checkpoint_minutes
        fraction = self.fraction()
        return Votes(
            validate=validate,
            end=self._is_chief and fraction >= 1,
            interrupt=self._interrupted(),
            cool_down=bool(self._cooldown_share)
            and self.cooldown is None
            and self._is_chief
            and fraction >= 1 - self._cooldown_share,
        )

    def is_regular(self) -> bool:
        """Returns whether a validation now is one of those at regular intervals.

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
        """Counts the batch, also one whose update was left out."""
        self._tokens += (logs or {})["tokens"]
        self.position = self._order.after(self.position)
