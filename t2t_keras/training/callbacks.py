"""Keras callbacks for progress reports and checkpoints."""

import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from t2t_keras.training.checkpoints import CheckpointStore
from t2t_keras.training.metrics import perplexity_of
from t2t_keras.training.trainer import Trainer
from t2t_keras.training.weight_files import variable_arrays

Logs = dict[str, Any]


class ProgressReport(keras.callbacks.Callback):
    """Reports the progress of training.

    Args:
        show: Receives "step" and the metrics since the previous report: "step",
            "done" (fraction of the training, 0 to 1), "epoch", mean "loss" and
            "perplexity", "learning_rate", "tokens_per_second", "skipped" (total so
            far) and "seconds_left"; or "dev" and the metrics of the held-out data.
        fraction: Returns the completed fraction of the training, 0 to 1.
        epochs: Returns the number of completed epochs, with fractions.
        every_seconds: Seconds between reports. Default 10.
    """

    def __init__(
        self,
        show: Callable[[str, Logs], None],
        fraction: Callable[[], float],
        epochs: Callable[[], float],
        every_seconds: float = 10.0,
    ) -> None:
        super().__init__()
        self._show = show
        self._fraction = fraction
        self._epochs = epochs
        self._every_seconds = every_seconds
        self._skipped = 0

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Starts the clock."""
        self._started = time.monotonic()
        self._first_fraction = self._fraction()
        self._start_interval()

    def _start_interval(self) -> None:
        self._shown = time.monotonic()
        self._tokens = self._loss = self._nll = 0.0
        self._steps = 0

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Reports the mean since the previous report, every few seconds."""
        logs = logs or {}
        self._skipped += int(logs["skipped"])
        self._tokens += logs["tokens"]
        self._loss += logs["loss"]
        self._nll += logs["nll"]
        self._steps += 1
        now = time.monotonic()
        if now - self._shown < self._every_seconds:
            return
        fraction = self._fraction()
        done = fraction - self._first_fraction
        left = (now - self._started) * (1 - fraction) / done if done > 0 else 0.0
        self._show(
            "step",
            {
                "step": batch + 1,
                "done": fraction,
                "epoch": self._epochs(),
                "loss": self._loss / self._steps,
                "perplexity": perplexity_of(self._nll / self._steps),
                "learning_rate": logs["learning_rate"],
                "tokens_per_second": self._tokens / max(now - self._shown, 1e-9),
                "skipped": self._skipped,
                "seconds_left": left,
            },
        )
        self._start_interval()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Reports the metrics of the held-out data."""
        figures = {
            name.removeprefix("val_"): value
            for name, value in (logs or {}).items()
            if name.startswith("val_")
        }
        if figures:
            self._show("dev", figures)
        # The throughput does not include validation.
        self._start_interval()


class SaveCheckpoint(keras.callbacks.Callback):
    """Saves a checkpoint after each validation.

    Each step is saved once. A second save of the same step would differ only by batches
    whose updates were skipped, and these come again when training resumes from the
    first save. But it would overwrite the metrics of the first.

    Args:
        store: Where to save.
        trainer: The trainer whose model and state are saved.
        progress: Returns further state to save, serializable as JSON.
        save_ema: Writes the arrays of the exponential moving average, given the step.
            Default: not saved.
    """

    def __init__(
        self,
        store: CheckpointStore,
        trainer: Trainer,
        progress: Callable[[], Logs],
        save_ema: Callable[[dict[str, np.ndarray], int], None] | None = None,
    ) -> None:
        super().__init__()
        self._store = store
        self._trainer = trainer
        self._progress = progress
        self._save_ema = save_ema
        self._saved_step: int | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Records the initial step, which needs no save: it is saved, or is step 0."""
        self._saved_step = self._trainer.step

    def save(self, metrics: dict[str, float] | None = None) -> None:
        """Saves a checkpoint, unless this step is already saved.

        Args:
            metrics: Metrics of the held-out data at this step.
        """
        step = self._trainer.step
        if step == self._saved_step:
            return
        self._store.save(
            step,
            self._trainer.model.variables,
            self._trainer.state_variables,
            self._progress(),
            metrics,
        )
        self._saved_step = step
        self.save_ema()

    def save_ema(self) -> None:
        """Writes the exponential moving average, if there is one."""
        if self._save_ema and self._trainer.ema:
            arrays = variable_arrays(self._trainer.model.variables)
            arrays |= self._trainer.ema.arrays()
            self._save_ema(arrays, self._trainer.step)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Saves a checkpoint with the metrics of the validation."""
        self.save(
            {
                name: float(value)
                for name, value in (logs or {}).items()
                if name.startswith("val_")
            }
        )
