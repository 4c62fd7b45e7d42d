"""The learning rate over time (section 5.3)."""

from typing import Any

import keras
import tensorflow as tf


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
        ValueError: If `warmup_steps` is below 1.
    """

    def __init__(
        self, d_model: int, warmup_steps: int = 4000, learning_rate: float = 1.0
    ) -> None:
        if warmup_steps < 1:
            raise ValueError(f"warmup_steps is at least 1. Received: {warmup_steps}")
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
