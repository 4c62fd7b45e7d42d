"""Adam (section 5.3) with in-place updates of each replica's variables."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("t2t_keras")
class Adam(keras.optimizers.Adam):
    """Keras's Adam with the paper's defaults, and `update` in place of `apply`.

    Keras's `apply` clips the gradients of each replica before it sums them, and cannot
    be skipped conditionally. The trainer sums and clips the gradients and checks that
    they are finite; then it calls `update`.

    Args:
        learning_rate: A float or a schedule.
        beta_1: Decay rate of the first moment. Default 0.9.
        beta_2: Decay rate of the second moment. Default 0.98.
        epsilon: Added to the square root of the second moment. Default 1e-9.
        **kwargs: Further arguments of `keras.optimizers.Adam`.
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

        Call it in every replica with the same gradients: the copies stay equal without
        communication, so that the call may be inside `tf.cond`.

        Args:
            gradients: Gradients of the variables that the optimizer was built with, in
                order.
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
