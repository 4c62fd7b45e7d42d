"""Adam (section 5.3) that updates a replica's variables in place."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("t2t_keras")
class Adam(keras.optimizers.Adam):
    """Keras's Adam with the paper's defaults, and a way around Keras's `apply`.

    Keras's `apply` adds up the gradients of all replicas after clipping them one by
    one, and cannot be left out of a step on a condition. The trainer sums, clips and
    looks for numbers that are none; then it calls `update`.

    Args:
        learning_rate: A number or a schedule.
        beta_1: Decay of the first moment. Default 0.9.
        beta_2: Decay of the second moment. Default 0.98.
        epsilon: Added to the root of the second moment. Default 1e-9.
        **kwargs: Keras's other arguments.
    """

    def __init__(
        self,
        learning_rate: Any,
        beta_1: float = 0.9,
        beta_2: float = 0.98,
        epsilon: float = 1e-9,
        name: str = "adam",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            learning_rate=learning_rate,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            name=name,
            **kwargs,
        )

    def update(
        self, gradients: Sequence[tf.Tensor], rate_factor: tf.Tensor | float = 1.0
    ) -> None:
        """Updates this replica's copy of each variable, with TensorFlow's fused kernel.

        To be called in every replica with the same gradients: the copies stay equal
        without a word between them, so that it may stand inside `tf.cond`.

        Args:
            gradients: Of the variables that the optimizer was built with, in order.
            rate_factor: Scalar float32 that multiplies the learning rate. Default 1.
        """
        learning_rate = self._get_current_learning_rate()
        for i, gradient in enumerate(gradients):
            variable = self._trainable_variables[i].value
            dtype = variable.dtype
            step = tf.cast(self.iterations.value + 1, dtype)
            beta_1, beta_2 = tf.cast(self.beta_1, dtype), tf.cast(self.beta_2, dtype)
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=self._momentums[i].value.handle,
                v=self._velocities[i].value.handle,
                beta1_power=tf.pow(beta_1, step),
                beta2_power=tf.pow(beta_2, step),
                lr=tf.cast(learning_rate, dtype) * tf.cast(rate_factor, dtype),
                beta1=beta_1,
                beta2=beta_2,
                epsilon=tf.cast(self.epsilon, dtype),
                grad=gradient,
            )
        iterations = self.iterations.value
        tf.raw_ops.AssignAddVariableOp(
            resource=iterations.handle, value=tf.ones([], iterations.dtype)
        )
