"""Keras callbacks: what is shown, kept and watched while a model trains."""

import math
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from t2t_keras.training.arrays import variable_arrays
from t2t_keras.training.checkpoints import LARGER_IS_BETTER, CheckpointStore
from t2t_keras.training.metrics import perplexity_of
from t2t_keras.training.trainer import Trainer

Logs = dict[str, Any]


class ProgressReport(keras.callbacks.Callback):
    """Hands on where training stands.

    Args:
        show: Receives "step" and the figures of the steps since it was last called:
            "step", "done" (share of the training, 0 to 1), "epoch", their mean "loss"
            and "perplexity", "learning_rate", "tokens_per_second", "skipped" (so
            far) and "seconds_left"; or "dev" and the figures of the held-back data.
        fraction: Tells how much of the training is done, 0 to 1.
        epochs: Tells how many passes over the data are done, with fractions.
        every_seconds: Seconds between calls. Default 10.
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
        self._start_line()

    def _start_line(self) -> None:
        self._shown = time.monotonic()
        self._tokens = self._loss = self._nll = 0.0
        self._steps = 0

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Shows the mean of the steps since the last time, now and then."""
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
        self._start_line()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Shows the figures of the held-back data."""
        figures = {
            name.removeprefix("val_"): value
            for name, value in (logs or {}).items()
            if name.startswith("val_")
        }
        if figures:
            self._show("dev", figures)
        # Validation is no training: it does not count into the speed.
        self._start_line()


class EarlyStopping(keras.callbacks.Callback):
    """Ends training when a figure of the held-out data no longer improves.

    Unlike Keras's callback of this name it depends neither on the number of the epoch
    nor on the process: `state` and `restore` carry `best` and `wait` from one process
    to the next, so that a run that is continued ends where an uninterrupted one does.
    A figure that is not finite is never an improvement.

    Args:
        monitor: Name of the figure, such as "val_nll". Higher is better for accuracy
            and BLEU, lower for all others.
        patience: Number of validations without improvement after which training ends.
            Default None: never, but `best` and `wait` are kept, for a later run that
            has a patience.
        counts: Tells whether the present validation counts. Default: all do.
        threshold: Value that the figure must have reached for training to end.
            Default None: any.

    Attributes:
        best: The best figure so far, or None.
        wait: Number of validations since then.
    """

    def __init__(
        self,
        monitor: str,
        patience: int | None = None,
        counts: Callable[[], bool] = lambda: True,
        threshold: float | None = None,
    ) -> None:
        super().__init__()
        self.monitor = monitor
        self.patience = patience
        self.threshold = threshold
        self.best: float | None = None
        self.wait = 0
        self._counts = counts
        self._sign = -1 if monitor in LARGER_IS_BETTER else 1

    @property
    def is_exhausted(self) -> bool:
        """Whether training has waited for an improvement as long as it may."""
        if self.patience is None or self.wait < self.patience:
            return False
        return self.threshold is None or (
            self.best is not None and self._sign * (self.best - self.threshold) <= 0
        )

    def reason(self) -> str:
        """Tells how long there was no improvement, on what."""
        best = "finite" if self.best is None else f"better than {self.best:.6g}"
        last = "validation" if self.wait == 1 else f"{self.wait} validations"
        return f"{self.monitor} was not {best} in the last {last}"

    def state(self) -> Logs:
        """Returns what a checkpoint has to keep."""
        return {"best": self.best, "wait": self.wait, "metric": self.monitor}

    def restore(self, state: Logs) -> None:
        """Takes over what `state` returned in an earlier run.

        The figures of another metric cannot be compared with: then it starts anew.
        """
        if state["metric"] == self.monitor:
            self.best, self.wait = state["best"], state["wait"]

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Compares the figure with the best so far."""
        value = (logs or {}).get(self.monitor)
        if value is None or not self._counts():
            return
        if math.isfinite(value) and (
            self.best is None or self._sign * value < self._sign * self.best
        ):
            self.best, self.wait = float(value), 0
        else:
            self.wait += 1
        if self.is_exhausted:
            self.model.stop_training = True


class SaveCheckpoint(keras.callbacks.Callback):
    """Saves a checkpoint after each validation.

    A step is saved once. What a second save would find differs only by batches whose
    update was left out, which come again when training goes on from the first; but it
    would overwrite the figures that the first has.

    Args:
        store: Where to save.
        trainer: Its model and state are saved.
        progress: Returns what else is to be saved, anything JSON can hold.
        save_ema: Writes the arrays of the exponential average, given the step too.
            Default: there is none.
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
        """Notes the step that training starts from: it is saved, or there is none."""
        self._saved_step = self._trainer.step

    def save(self, metrics: dict[str, float] | None = None) -> None:
        """Saves now, unless this step is saved already.

        Args:
            metrics: Figures of the held-out data that the checkpoint has reached.
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
        """Writes the exponential average, if there is one."""
        if self._save_ema and self._trainer.ema:
            arrays = variable_arrays(self._trainer.model.variables)
            arrays |= self._trainer.ema.arrays()
            self._save_ema(arrays, self._trainer.step)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Saves."""
        self.save(
            {
                name: float(value)
                for name, value in (logs or {}).items()
                if name.startswith("val_")
            }
        )
