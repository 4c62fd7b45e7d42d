"""Early stopping, whose state survives in checkpoints."""

import math
from collections.abc import Callable
from typing import Any

import keras

from t2t_keras.training.checkpoints import LARGER_IS_BETTER

Logs = dict[str, Any]


class EarlyStopping(keras.callbacks.Callback):
    """Ends training when a metric of the held-out data no longer improves.

    Unlike the Keras callback of this name, it does not depend on the epoch number or
    the process: `state` and `restore` carry `best` and `wait` from one process to the
    next, so that a resumed run ends where an uninterrupted one does. A non-finite value
    is never an improvement.

    Args:
        monitor: Name of the metric, such as "val_nll". Higher is better for accuracy
            and BLEU, lower for all others.
        patience: Number of validations without improvement after which training ends.
            Default None: never, but `best` and `wait` are tracked for a later run
            with a patience.
        counts: Returns whether the current validation counts. Default: all do.
        threshold: Value that the metric must reach before training may end.
            Default None: no threshold.

    Attributes:
        best: The best value so far, or None.
        wait: Number of validations since the best one.
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
        """Whether the patience is exhausted and the threshold is reached."""
        if self.patience is None or self.wait < self.patience:
            return False
        return self.threshold is None or (
            self.best is not None and self._sign * (self.best - self.threshold) <= 0
        )

    def reason(self) -> str:
        """Describes why training stopped, for the log."""
        best = "finite" if self.best is None else f"better than {self.best:.6g}"
        last = "validation" if self.wait == 1 else f"{self.wait} validations"
        return f"{self.monitor} was not {best} in the last {last}"

    def state(self) -> Logs:
        """Returns the state to save in a checkpoint."""
        return {"best": self.best, "wait": self.wait, "metric": self.monitor}

    def restore(self, state: Logs) -> None:
        """Restores what `state` returned in an earlier run.

        A state of another metric is ignored, since the values cannot be compared.
        """
        if state["metric"] == self.monitor:
            self.best, self.wait = state["best"], state["wait"]

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Compares the metric with the best value so far."""
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
