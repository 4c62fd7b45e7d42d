"""Checkpoint averaging (section 6.1) and exponential moving averages of weights."""

from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.training.weight_files import load_arrays


def average_weights(paths: Sequence[str | Path]) -> dict[str, np.ndarray]:
    """Averages the weights of checkpoints, loading one file at a time.

    Args:
        paths: Weight files of the same model.

    Returns:
        The mean of each floating-point array, computed in float64. Other arrays, such
        as counters, are taken from the last file. All arrays keep their dtypes.

    Raises:
        UserError: If there are no paths, a file is damaged, or the files belong to
            different models.
    """
    if not paths:
        raise UserError("There are no checkpoints to average.")
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
            raise UserError(f"{path} and {paths[0]} belong to different models.")
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
    """Exponential moving average of a model's weights.

    At step t the decay is at most (1 + t) / (10 + t), so that the average forgets the
    random initial weights quickly.

    Args:
        variables: The trainable variables of the model.
        decay: Fraction of the average kept at each step, 0 < decay < 1.

    Raises:
        UserError: If `decay` is out of range.
    """

    def __init__(self, variables: Sequence[keras.Variable], decay: float) -> None:
        if not 0 < decay < 1:
            raise UserError(
                f"ema_decay must be between 0 and 1, exclusive. Received: {decay}"
            )
        self.decay = decay
        self._averaged = list(variables)
        self.variables = [
            keras.Variable(
                variable.numpy(),
                dtype=variable.dtype,
                trainable=False,
                name="ema." + variable.path.replace("/", "."),
            )
            for variable in self._averaged
        ]

    def reset(self) -> None:
        """Resets the average to the current weights."""
        for average, variable in zip(self.variables, self._averaged, strict=True):
            average.assign(variable.numpy())

    def update(self, step: tf.Tensor) -> None:
        """Moves the average towards the weights. Call it in every replica.

        Args:
            step: Scalar integer, number of completed updates.
        """
        step = tf.cast(step, tf.float32)
        decay = tf.minimum(self.decay, (1 + step) / (10 + step))
        for average, variable in zip(self.variables, self._averaged, strict=True):
            value, mean = variable.value, average.value
            tf.raw_ops.AssignAddVariableOp(
                resource=mean.handle,
                value=(value - mean) * tf.cast(1 - decay, mean.dtype),
            )

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the average by path of the model's variables."""
        return {
            variable.path: average.numpy()
            for variable, average in zip(self._averaged, self.variables, strict=True)
        }
