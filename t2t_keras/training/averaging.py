"""Averages of weights: of several checkpoints (section 6.1), and a running one."""

from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.training.arrays import load_arrays


def average_weights(paths: Sequence[str | Path]) -> dict[str, np.ndarray]:
    """Averages the weights of checkpoints, one file in memory at a time.

    Args:
        paths: Files of weights of one and the same model.

    Returns:
        The mean of each floating-point array, summed in float64. Any other array, such
        as a counter, is that of the last file. All arrays keep their dtypes.

    Raises:
        UserError: If there are no paths, a file is damaged, or the files are of
            different models.
    """
    if not paths:
        raise UserError("There is no checkpoint to average.")
    total: dict[str, np.ndarray] = {}
    last: dict[str, np.ndarray] = {}
    for path in paths:
        arrays = {
            name: array
            for name, array in load_arrays(path).items()
            if array.dtype.kind != "U"  # Text: the metrics on the dev split.
        }
        shapes = {name: array.shape for name, array in arrays.items()}
        if total and shapes != {name: array.shape for name, array in total.items()}:
            raise UserError(f"{path} is of another model than {paths[0]}.")
        for name, array in arrays.items():
            if not np.issubdtype(array.dtype, np.floating):
                total[name] = array
            elif name in total:
                total[name] += array
            else:
                total[name] = array.astype(np.float64)
        last = arrays
    return {
        name: (
            (array / len(paths)).astype(last[name].dtype)
            if np.issubdtype(last[name].dtype, np.floating)
            else array
        )
        for name, array in total.items()
    }


class ExponentialAverage:
    """A running average of a model's weights: a little of the present ones each step.

    Early on it forgets faster, so that it does not hold on to random weights: at step
    t the decay is at most (1 + t) / (10 + t).

    Args:
        variables: The trainable variables of the model.
        decay: Share of the average that a step keeps, 0 < decay < 1.

    Raises:
        UserError: If `decay` is out of its range.
    """

    def __init__(self, variables: Sequence[keras.Variable], decay: float) -> None:
        if not 0 < decay < 1:
            raise UserError(f"ema_decay lies between 0 and 1. Received: {decay}")
        self.decay = decay
        self._of = list(variables)
        self.variables = [
            keras.Variable(
                variable.numpy(),
                dtype=variable.dtype,
                trainable=False,
                name="ema." + variable.path.replace("/", "."),
            )
            for variable in self._of
        ]

    def reset(self) -> None:
        """Begins anew with the weights as they are."""
        for average, variable in zip(self.variables, self._of, strict=True):
            average.assign(variable.numpy())

    def update(self, step: tf.Tensor) -> None:
        """Moves the average towards the weights; to be called in every replica.

        Args:
            step: Scalar integer, updates done so far.
        """
        step = tf.cast(step, tf.float32)
        decay = tf.minimum(self.decay, (1 + step) / (10 + step))
        for average, variable in zip(self.variables, self._of, strict=True):
            value, mean = variable.value, average.value
            tf.raw_ops.AssignAddVariableOp(
                resource=mean.handle,
                value=(value - mean) * tf.cast(1 - decay, mean.dtype),
            )

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the average under the paths of the model's variables."""
        return {
            variable.path: average.numpy()
            for variable, average in zip(self._of, self.variables, strict=True)
        }
