"""Dynamic loss scaling for float16 (Micikevicius et al., 2018)."""

import keras
import tensorflow as tf


class LossScale:
    """Loss scale that keeps small gradients from underflowing in float16.

    It is halved whenever the gradients overflow, and doubled after many consecutive
    steps without overflow.

    Args:
        initial: Initial scale. Default 2^15.
        growth_steps: Consecutive steps without overflow before the scale doubles.
            Default 2,000.
    """

    def __init__(self, initial: float = 2.0**15, growth_steps: int = 2000) -> None:
        self.growth_steps = growth_steps
        self.scale = keras.Variable(
            tf.constant(initial), trainable=False, name="loss_scale"
        )
        self.good_steps = keras.Variable(
            tf.constant(0), dtype="int32", trainable=False, name="loss_scale_good_steps"
        )

    @property
    def variables(self) -> list[keras.Variable]:
        """The variables to save in a checkpoint."""
        return [self.scale, self.good_steps]

    def update(self, is_finite: tf.Tensor) -> None:
        """Adapts the scale. Call it in every replica, with the same argument.

        Args:
            is_finite: Scalar bool, whether the gradients of the step were finite.
        """
        scale, good_steps = self.scale.value, self.good_steps.value
        good = tf.where(is_finite, good_steps + 1, 0)
        grows = good >= self.growth_steps
        factor = tf.where(is_finite, tf.where(grows, 2.0, 1.0), 0.5)
        tf.raw_ops.AssignVariableOp(
            resource=scale.handle, value=tf.maximum(scale * factor, 1.0)
        )
        tf.raw_ops.AssignVariableOp(
            resource=good_steps.handle, value=tf.where(grows, 0, good)
        )
