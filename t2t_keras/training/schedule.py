"""The learning rate over time (section 5.3), and its end."""

import math
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_keras.errors import UserError


@keras.saving.register_keras_serializable("t2t_keras")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """scale * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5) (eq. 3).

    Args:
        d_model: Size of the model.
        warmup_steps: Steps of linear growth; the inverse square root follows.
            Default 4000.
        learning_rate: Multiplies the whole; 1 is the paper's. Default 1.

    Call arguments:
        step: Number of updates already done. The paper counts from 1: the first
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
            raise UserError(f"warmup_steps is at least 1. Received: {warmup_steps}")
        self.d_model = d_model
        self.warmup_steps = warmup_steps
        self.learning_rate = learning_rate

    def __call__(self, step: Any) -> tf.Tensor:
        """Returns the rate of the next update."""
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
    """The end of training, in which the learning rate falls linearly to zero.

    A schedule that decays from the start has to know its last step. A cooldown can be
    begun at any step: training at the usual rate, followed by a cooldown, reaches what
    such a schedule reaches (Hägele et al., 2024, "Scaling Laws and Compute-Optimal
    Training Beyond Fixed Training Durations").

    Attributes:
        start: Number of updates before it, at the usual rate.
        end: Number of updates after it: training is over.
    """

    start: int
    end: int

    @classmethod
    def plan(cls, step: int, fraction: float, share: float) -> "Cooldown":
        """Plans a cooldown from a step on.

        Args:
            step: Number of updates done.
            fraction: Share of the training that they are, 0 < fraction <= 1. All that
                is left is the cooldown, but at most `share`.
            share: Share of all updates that belong to a cooldown, 0 < share < 1.
        """
        end = math.ceil(step / max(fraction, 1 - share) - 1e-6)  # Floats fall short.
        return cls(step, max(end, step + 1))

    def rate_factor(self, step: int) -> float:
        """Returns what the learning rate of the next update is multiplied by.

        Args:
            step: Number of updates done.
        """
        left = (self.end - step) / (self.end - self.start + 1)
        return min(1.0, max(0.0, left))
