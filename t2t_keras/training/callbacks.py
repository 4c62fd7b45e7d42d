"""Keras callbacks: what is shown and kept while a model trains."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from t2t_keras.training.checkpoints import CheckpointStore

Logs = dict[str, Any]


def format_seconds(seconds: float) -> str:
    """Writes a time span as 1:02:03 or 2:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{seconds:02}"
    return f"{minutes}:{seconds:02}"


class ProgressReport(keras.callbacks.Callback):
    """Reports step, loss, perplexity, learning rate, speed and the time left.

    Args:
        report: Receives a line of text.
        fraction: Tells how much of the training is done, 0 to 1.
        every_seconds: Seconds between lines. Default 10.
    """

    def __init__(
        self,
        report: Callable[[str], None],
        fraction: Callable[[], float],
        every_seconds: float = 10.0,
    ) -> None:
        super().__init__()
        self._report = report
        self._fraction = fraction
        self._every_seconds = every_seconds

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Starts the clock."""
        self._started = self._reported = time.monotonic()
        self._first_fraction = self._fraction()
        self._tokens = self._seconds = self._loss = 0.0
        self._steps = 0

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Reports the mean of the steps since the last line, now and then."""
        logs = logs or {}
        self._tokens += logs["tokens"]
        self._loss += logs["loss"]
        self._steps += 1
        now = time.monotonic()
        if now - self._reported < self._every_seconds:
            return
        fraction = self._fraction()
        done = fraction - self._first_fraction
        left = (now - self._started) * (1 - fraction) / done if done > 0 else 0.0
        self._report(
            f"step {batch + 1:,} ({fraction:.0%})  "
            f"epoch {logs['epoch'] + (logs['batch'] + 1) / logs['batches']:.2f}  "
            f"loss {self._loss / self._steps:.3f}  "
            f"perplexity {logs['perplexity']:.2f}  "
            f"learning rate {logs['learning_rate']:.2e}  "
            f"{self._tokens / (now - self._reported):,.0f} tokens/s  "
            f"{format_seconds(left)} left"
        )
        self._tokens = self._loss = 0.0
        self._steps = 0
        self._reported = now

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Reports the figures of the held-back data."""
        figures = "  ".join(
            f"{name.removeprefix('val_')} {value:.3f}"
            for name, value in (logs or {}).items()
            if name.startswith("val_")
        )
        if figures:
            self._report(f"dev: {figures}")
        # Validation is no training: it does not count into the speed.
        self._reported = time.monotonic()
        self._tokens = self._loss = 0.0
        self._steps = 0


class TensorBoardScalars(keras.callbacks.Callback):
    """Writes figures for TensorBoard, with the number of updates as the step.

    Args:
        log_dir: Where to write; "train" and "dev" become runs of their own.
        step: Returns the number of updates done.
        every_steps: Updates between training figures. Default 10.
    """

    def __init__(
        self, log_dir: str | Path, step: Callable[[], int], every_steps: int = 10
    ) -> None:
        super().__init__()
        self._log_dir = Path(log_dir)
        self._step = step
        self._every_steps = every_steps

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Opens the files."""
        self._train = tf.summary.create_file_writer(str(self._log_dir / "train"))
        self._dev = tf.summary.create_file_writer(str(self._log_dir / "dev"))

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Writes the figures of a step."""
        if (batch + 1) % self._every_steps == 0:
            with self._train.as_default(step=batch + 1):
                for name, value in (logs or {}).items():
                    tf.summary.scalar(name, value)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Writes the figures of the held-back data."""
        with self._dev.as_default(step=self._step()):
            for name, value in (logs or {}).items():
                if name.startswith("val_"):
                    tf.summary.scalar(name.removeprefix("val_"), value)
        self._train.flush()
        self._dev.flush()

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Closes the files."""
        self._train.close()
        self._dev.close()


def early_stopping(metric: str, patience: int) -> keras.callbacks.EarlyStopping:
    """Ends training when a figure of the held-back data no longer gets better.

    Args:
        metric: Its name, "val_nll" for one. Of accuracy and BLEU more is better, of
            all others less.
        patience: Validations to wait for a better figure.
    """
    mode = "max" if metric in ("val_accuracy", "val_bleu") else "min"
    return keras.callbacks.EarlyStopping(metric, patience=patience, mode=mode)


class SaveCheckpoint(keras.callbacks.Callback):
    """Saves a checkpoint after each validation.

    Args:
        store: Where to save.
        optimizer: Saved with the model.
        progress: Returns what else is to be saved, anything JSON can hold.
    """

    def __init__(
        self,
        store: CheckpointStore,
        optimizer: keras.optimizers.Optimizer,
        progress: Callable[[], Logs],
    ) -> None:
        super().__init__()
        self._store = store
        self._optimizer = optimizer
        self._progress = progress

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Saves."""
        step = int(self._optimizer.iterations.numpy())
        self._store.save(step, self.model, self._optimizer, self._progress())
