"""Learning rate schedules: warm-up (section 5.3) and cooldown."""

import math
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_keras.errors import UserError


@keras.saving.register_keras_serializable("t2t_keras")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """scale * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5) (eq. 3).

    Args:
        d_model: Size of the output of every layer.
        warmup_steps: Number of steps of linear growth, before the inverse square root
            decay. Default 4000.
        learning_rate: The factor `scale`. Default 1, as in the paper.

    Call arguments:
        step: Number of completed updates. The paper counts from 1: the first
            update, `step` = 0, uses the rate of the paper's step 1.

    Returns:
        The learning rate, float32.

    Raises:
        UserError: If `warmup_steps` is below 1.
    """

    def __init__(
        self, d_model: int, warmup_steps: int = 4000, learning_rate: float = 1.0
    ) -> None:
        if warmup_steps < 1:
            raise UserError(
                f"warmup_steps must be at least 1. Received: {warmup_steps}"
            )
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.learning_rate = learning_rate

    def __call__(self, step: Any) -> tf.Tensor:
        """Returns the learning rate of the next update."""
        step = tf.cast(step, tf.float32) + 1
        rise = step * self.warmup_steps**-1.5
        factor = self.learning_rate * self.d_model**-0.5
        return factor * tf.minimum(tf.math.rsqrt(step), rise)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {
            "d_model": self.d_model,
            "warmup_steps": self.warmup_steps,
            "learning_rate": self.learning_rate,
        }


class Cooldown(NamedTuple):
    """Final phase of training, in which the learning rate falls linearly to zero.

    A schedule that decays from the start must know its last step. A cooldown can begin
    at any step, and reaches the quality of such a schedule (Hägele et al., 2024,
    "Scaling Laws and Compute-Optimal Training Beyond Fixed Training Durations").

    Attributes:
        start: Number of updates before the cooldown.
        end: Number of updates at its end, when training is finished.
    """

    start: int
    end: int

    @classmethod
    def plan(cls, step: int, fraction: float, share: float) -> "Cooldown":
        """Plans a cooldown that begins at a step.

        Args:
            step: Number of completed updates.
            fraction: Completed fraction of the training, 0 < fraction <= 1. The
                cooldown takes all that remains, limited by `share`.
            share: Maximum fraction of all updates in the cooldown, 0 < share < 1.
        """
        end = math.ceil(step / max(fraction, 1 - share) - 1e-6)  # Rounding of floats.
        return cls(step, max(end, step + 1))

    def rate_factor(self, step: int) -> float:
        """Returns the factor of the learning rate for the next update.

        Args:
            step: Number of completed updates.
        """
        left = (self.end - step) / (self.end - self.start + 1)
        return min(1.0, max(0.0, left))
