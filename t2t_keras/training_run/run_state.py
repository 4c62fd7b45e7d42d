"""State of a run that is saved in checkpoints beside weights and optimizer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras.config import TrainingConfig
from t2t_keras.data.batch_order import BatchOrder
from t2t_keras.plurals import counted
from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training.early_stopping import EarlyStopping
from t2t_keras.training.skipped_steps import SkippedSteps
from t2t_keras.training.trainer import Trainer
from t2t_keras.training_run.progress import Progress


class RunState(NamedTuple):
    """The callbacks with state that a resumed run needs.

    Attributes:
        progress: Position in the data, and the part of the budget that is spent.
        stopping: Number of validations without improvement.
        skipped: Number of consecutive skipped steps.
    """

    progress: Progress
    stopping: EarlyStopping
    skipped: SkippedSteps

    def to_dict(self) -> dict[str, Any]:
        """Returns the state, for a checkpoint."""
        return {
            **self.progress.state(),
            "early_stopping": self.stopping.state(),
            "skipped_in_a_row": self.skipped.consecutive,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Restores what `to_dict` returned; all workers must call it."""
        self.skipped.consecutive = saved["skipped_in_a_row"]
        if saved["early_stopping"]:  # None in checkpoints of earlier versions.
            self.stopping.restore(saved["early_stopping"])
        self.progress.restore(saved, self.stopping.is_exhausted)

    def reason_finished(self) -> str:
        """Returns why no training is left, or an empty string if some is."""
        steps = counted(self.progress.step, "step")
        if self.stopping.is_exhausted and not self.progress.cooldown.is_in_progress:
            return (
                f"early stopping ended it after {steps}, because "
                f"{self.stopping.reason()}. To continue, increase or unset "
                "--early_stop_patience."
            )
        if self.progress.fraction() >= 1:
            return (
                f"its budget is spent after {steps}. To continue, increase "
                "--train_steps, --train_epochs, --train_tokens or --train_minutes."
            )
        return ""


def initial_state(
    trainer: Trainer,
    training: TrainingConfig,
    budget: TrainingBudget,
    order: BatchOrder,
    interrupted: Callable[[], bool],
    dump: Callable[[int, int], Path],
    report: Callable[[str], None],
    is_chief: bool,
) -> RunState:
    """Returns the state of a new run.

    Args:
        trainer: The trainer.
        training: The configuration of the training.
        budget: The training budget.
        order: The order of the batches.
        interrupted: Returns whether this process has been asked to stop.
        dump: Writes the text of a batch, given its epoch and index.
        report: Called with each message.
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
        # A cooldown always runs to its end.
        lambda: progress.is_regular() and not progress.cooldown.has_begun,
        training.early_stop_threshold,
    )
    skipped = SkippedSteps(
        training.max_skipped_steps, report, lambda: progress.position, dump
    )
    return RunState(progress, stopping, skipped)
