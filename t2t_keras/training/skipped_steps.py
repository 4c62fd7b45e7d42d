"""Ends training after too many consecutive steps with non-finite gradients."""

from collections.abc import Callable
from typing import Any

import keras

from t2t_keras.plurals import counted
from t2t_keras.training.callbacks import Logs


class NonFiniteGradientsError(FloatingPointError):
    """Too many consecutive steps had non-finite gradients."""


class SkippedSteps(keras.callbacks.Callback):
    """Ends training when the gradients stay infinite or NaN.

    Args:
        maximum: Maximum number of consecutive skipped steps.
        warn: Receives a line of text for each skipped step.
        place: Called before each step; returns the epoch and the number of its batch.
        dump: Writes the batch with the given epoch and number, and returns the path.

    Attributes:
        consecutive: Number of consecutive skipped steps; saved in checkpoints.
    """

    def __init__(
        self,
        maximum: int,
        warn: Callable[[str], None],
        place: Callable[[], tuple[int, int]],
        dump: Callable[[int, int], Any],
    ) -> None:
        super().__init__()
        self._maximum = maximum
        self._warn = warn
        self._place = place
        self._dump = dump
        self.consecutive = 0

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Records which batch the step takes."""
        self._batch = self._place()

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Counts skipped steps."""
        logs = logs or {}
        if not logs["skipped"]:
            self.consecutive = 0
            return
        self.consecutive += 1
        epoch, number = self._batch
        where = f"step {batch + 1:,} (epoch {epoch}, batch {number:,})"
        self._warn(f"Non-finite gradients at {where}: the step is skipped.")
        if self.consecutive > self._maximum:
            dumped = self._dump(epoch, number)
            raise NonFiniteGradientsError(
                f"{counted(self.consecutive, 'consecutive step')} had non-finite "
                f"gradients, the last one at {where}. The text of its batch is in "
                f"{dumped}. Lower --learning_rate, or set --clip_norm."
            )
