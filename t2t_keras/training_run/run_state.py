"""What a checkpoint keeps of a run, beside the weights and the optimizer's state."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras.config import TrainingConfig
from t2t_keras.counted import counted
from t2t_keras.data.batch_order import BatchOrder
from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training.callbacks import EarlyStopping
from t2t_keras.training.skipped_steps import SkippedSteps
from t2t_keras.training.trainer import Trainer
from t2t_keras.training_run.progress import Progress


class RunState(NamedTuple):
    """The callbacks whose state decides how a run goes on.

    Attributes:
        progress: Place in the data, and how much of the budget is spent.
        stopping: Counts validations without improvement.
        skipped: Counts consecutive steps whose updates were left out.
    """

    progress: Progress
    stopping: EarlyStopping
    skipped: SkippedSteps

    def to_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint has to keep."""
        return {
            **self.progress.state(),
            "early_stopping": self.stopping.state(),
            "skipped_in_a_row": self.skipped.in_a_row,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Takes over what `to_dict` returned before; all workers call it."""
        self.skipped.in_a_row = saved["skipped_in_a_row"]
        if saved["early_stopping"]:  # None in checkpoints of earlier versions.
            self.stopping.restore(saved["early_stopping"])
        self.progress.restore(saved, self.stopping.is_exhausted)

    def why_ended(self) -> str:
        """Tells why there is nothing left to train; empty if there is."""
        steps = counted(self.progress.step, "step")
        if self.stopping.is_exhausted and not self.progress.is_cooling_down():
            return (
                f"trained already: early stopping ended it after {steps}, since "
                f"{self.stopping.reason()}. A larger --early_stop_patience, or none, "
                "goes on."
            )
        if self.progress.fraction() >= 1:
            return (
                f"trained already, for {steps}. A larger --train_steps, "
                "--train_epochs, --train_tokens or --train_minutes goes on."
            )
        return ""


def begin(
    trainer: Trainer,
    training: TrainingConfig,
    budget: TrainingBudget,
    order: BatchOrder,
    interrupted: Callable[[], bool],
    dump: Callable[[int, int], Path],
    report: Callable[[str], None],
    is_chief: bool,
) -> RunState:
    """Returns the state of a run that has taken no step.

    Args:
        trainer: Takes the steps.
        training: The configuration of the training.
        budget: How long to train.
        order: The order of the batches.
        interrupted: Tells whether this process was asked to stop.
        dump: Writes the text of a batch, given its epoch and number.
        report: Receives a line of text.
        is_chief: Whether this worker's clock counts.
    """
    progress = Progress(
        budget,
        trainer,
        order,
        training.checkpoint_steps,
        training.checkpoint_minutes,
        interrupted,
        is_chief,
        training.cooldown,
        report,
    )
    stopping = EarlyStopping(
        training.early_stop_metric,
        training.early_stop_patience,
        # A cooldown goes to its end.
        lambda: progress.is_regular() and not progress.cooldown,
        training.early_stop_threshold,
    )
    skipped = SkippedSteps(
        training.max_skipped_steps, report, lambda: progress.position, dump
    )
    return RunState(progress, stopping, skipped)
