"""Keras callbacks: what is shown, kept and watched while a model trains."""

import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from t2t_keras.training.checkpoints import (
    LARGER_IS_BETTER,
    CheckpointStore,
    variable_arrays,
)
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
        every_seconds: Seconds between calls. Default 10.
    """

    def __init__(
        self,
        show: Callable[[str, Logs], None],
        fraction: Callable[[], float],
        every_seconds: float = 10.0,
    ) -> None:
        super().__init__()
        self._show = show
        self._fraction = fraction
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
                "epoch": logs["epoch"] + (logs["batch"] + 1) / logs["batches"],
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


class EarlyStopping(keras.callbacks.EarlyStopping):
    """Ends training when a figure of the held-back data no longer gets better.

    Args:
        metric: Its name, "val_nll" for one.
        patience: Validations to wait for a better figure.
    """

    def __init__(self, metric: str, patience: int) -> None:
        mode = "max" if metric in LARGER_IS_BETTER else "min"
        super().__init__(metric, patience=patience, mode=mode)
        self._restored: Logs = {}

    def state(self) -> Logs:
        """Returns what a checkpoint has to keep."""
        best = None if self.best is None else float(self.best)
        return {"best": best, "wait": int(self.wait), "metric": self.monitor}

    def restore(self, state: Logs) -> None:
        """Takes over what `state` returned in an earlier run, if of the same metric."""
        if state["metric"] == self.monitor:
            self._restored = {name: state[name] for name in ("best", "wait")}

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Starts from what an earlier run had seen, if there was one."""
        super().on_train_begin(logs)
        for name, value in self._restored.items():
            setattr(self, name, value)


class NonFiniteGradientsError(FloatingPointError):
    """Too many steps in a row had gradients that are not finite."""


class SkippedSteps(keras.callbacks.Callback):
    """Ends training when the gradients stay infinite or not a number.

    Args:
        most: Steps in a row that may be left out.
        warn: Receives a line of text for each step left out.
        dump: Writes a batch, given its epoch and number, and returns where to.

    Attributes:
        in_a_row: Steps left out since the last good one; a checkpoint has to keep it.
    """

    def __init__(
        self,
        most: int,
        warn: Callable[[str], None],
        dump: Callable[[int, int], Any],
    ) -> None:
        super().__init__()
        self._most = most
        self._warn = warn
        self._dump = dump
        self.in_a_row = 0

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Counts the steps left out."""
        logs = logs or {}
        if not logs["skipped"]:
            self.in_a_row = 0
            return
        self.in_a_row += 1
        epoch, number = int(logs["epoch"]), int(logs["batch"])
        where = f"step {batch + 1:,} (epoch {epoch}, batch {number:,})"
        self._warn(f"The gradients of {where} are not finite: the step is left out.")
        if self.in_a_row > self._most:
            dumped = self._dump(epoch, number)
            raise NonFiniteGradientsError(
                f"{self.in_a_row} steps in a row had gradients that are not finite, "
                f"the last of them {where}. Its batch is in {dumped}. Lower "
                "--learning_rate, or set --clip_norm."
            )


class SaveCheckpoint(keras.callbacks.Callback):
    """Saves a checkpoint after each validation.

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

    def save(self, metrics: dict[str, float] | None = None) -> None:
        """Saves now.

        Args:
            metrics: Figures of the held-back data that the checkpoint has reached.
        """
        self._store.save(
            self._trainer.step,
            self._trainer.model.variables,
            self._trainer.state_variables,
            self._progress(),
            metrics,
        )
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
