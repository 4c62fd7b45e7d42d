"""Ends training after too many consecutive steps with non-finite gradients."""

from collections.abc import Callable
from typing import Any

import keras

from t2t_keras.counted import counted
from t2t_keras.training.callbacks import Logs


class NonFiniteGradientsError(FloatingPointError):
    """Too many steps in a row had gradients that are not finite."""


class SkippedSteps(keras.callbacks.Callback):
    """Ends training when the gradients stay infinite or not a number.

    Args:
        most: Steps in a row that may be left out.
        warn: Receives a line of text for each step left out.
        place: Tells, before each step, the epoch and the number of its batch.
        dump: Writes a batch, given its epoch and number, and returns where to.

    Attributes:
        in_a_row: Steps left out since the last good one; a checkpoint has to keep it.
    """

    def __init__(
        self,
        most: int,
        warn: Callable[[str], None],
        place: Callable[[], tuple[int, int]],
        dump: Callable[[int, int], Any],
    ) -> None:
        super().__init__()
        self._most = most
        self._warn = warn
        self._place = place
        self._dump = dump
        self.in_a_row = 0

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Notes which batch the step takes."""
        self._batch = self._place()

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Counts the steps left out."""
        logs = logs or {}
        if not logs["skipped"]:
            self.in_a_row = 0
            return
        self.in_a_row += 1
        epoch, number = self._batch
        where = f"step {batch + 1:,} (epoch {epoch}, batch {number:,})"
        self._warn(f"The gradients of {where} are not finite: the step is left out.")
        if self.in_a_row > self._most:
            dumped = self._dump(epoch, number)
            raise NonFiniteGradientsError(
                f"{counted(self.in_a_row, 'step')} in a row had gradients that are not "
                f"finite, the last of them {where}. Its batch is in {dumped}. Lower "
                "--learning_rate, or set --clip_norm."
            )
