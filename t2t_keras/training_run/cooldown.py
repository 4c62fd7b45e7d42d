"""The cooldown in a run: when it begins, and when a resumed run continues it."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training.learning_rate_schedule import Cooldown
from t2t_keras.training.trainer import Trainer


class RunCooldown:
    """The cooldown of the learning rate at the end of a run, if one is configured.

    Args:
        budget: The training budget.
        trainer: The trainer, which counts the steps.
        share: Fraction of the training, at its end, over which the learning rate
            decreases to zero. Default 0 (no cooldown).
        report: Called with a message when the cooldown begins. Default: no report.

    Raises:
        UserError: If `share` is out of range.
    """

    def __init__(
        self,
        budget: TrainingBudget,
        trainer: Trainer,
        share: float = 0.0,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        if not 0 <= share < 1:
            raise UserError(
                f"cooldown must be at least 0 and below 1. Received: {share}"
            )
        self._budget = budget
        self._trainer = trainer
        self._share = share
        self._report = report
        self._plan: Cooldown | None = None
        self._cause: dict[str, Any] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the cooldown is in progress or over."""
        return self._plan is not None

    @property
    def is_in_progress(self) -> bool:
        """Whether the cooldown has begun and is not over."""
        return self._plan is not None and self._trainer.step < self._plan.end

    def is_due(self, fraction: float) -> bool:
        """Returns whether the cooldown should begin.

        Args:
            fraction: Completed fraction of the training.
        """
        return bool(self._share) and not self._plan and fraction >= 1 - self._share

    def begin(self, fraction: float, stopped_early: bool) -> bool:
        """Begins the cooldown if one is configured. All workers must call it.

        Args:
            fraction: Completed fraction of the training. It may depend on the clock,
                and the chief's clock decides.
            stopped_early: Whether early stopping is the cause, rather than the budget.

        Returns:
            True if training continues with a learning rate that decreases to zero.
        """
        if self._share and not self._plan:
            plan = Cooldown.plan(self._trainer.step, fraction, self._share)
            end = self._trainer.workers.broadcast_from_chief(plan.end)
            self._plan = plan._replace(end=end)
            self._cause = None if stopped_early else asdict(self._budget)
            self._report(
                f"Cooldown: the learning rate decreases to zero at step {end:,}."
            )
        return self.is_in_progress

    def restore(self, saved: dict[str, Any] | None, stopped_early: bool) -> None:
        """Continues the cooldown of an earlier process if its cause still holds.

        The cause is early stopping, or the same budget. With a larger budget, training
        continues at the scheduled learning rate.

        Args:
            saved: Result of `state` in the earlier process.
            stopped_early: Whether early stopping has been reached.
        """
        if not saved or not self._share:
            return
        budget = saved["budget"]
        if stopped_early if budget is None else budget == asdict(self._budget):
            self._plan = Cooldown(saved["start"], saved["end"])
            self._cause = budget

    def state(self) -> dict[str, Any] | None:
        """Returns the state to save in a checkpoint; None before the cooldown."""
        return self._plan and {**self._plan._asdict(), "budget": self._cause}

    def fraction(self) -> float:
        """Returns the fraction of all updates that are done; 0 before the cooldown."""
        return min(1.0, self._trainer.step / self._plan.end) if self._plan else 0.0

    def rate_factor(self) -> float:
        """Returns the factor of the learning rate for the next update."""
        return self._plan.rate_factor(self._trainer.step) if self._plan else 1.0
