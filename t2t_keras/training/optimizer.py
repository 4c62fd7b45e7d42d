"""Adam (section 5.3) for gradients that are summed over replicas already."""

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("t2t_keras")
class Adam(keras.optimizers.Adam):
    """Keras's Adam with the paper's defaults, TensorFlow's fused kernel, and no sum.

    Keras's own `apply` adds up the gradients of all replicas after clipping them one
    by one; clipping by the global norm has to come after the sum, so the trainer
    does both and this class does neither.

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

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> Any:
        return grads_and_vars

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates one variable and its two moments in a single pass over memory."""
        dtype = variable.dtype
        step = tf.cast(self.iterations.value + 1, dtype)
        index = self._get_variable_index(variable)
        beta_1 = tf.cast(self.beta_1, dtype)
        beta_2 = tf.cast(self.beta_2, dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=tf.pow(beta_1, step),
            beta2_power=tf.pow(beta_2, step),
            lr=tf.cast(learning_rate, dtype),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=tf.cast(self.epsilon, dtype),
            grad=tf.convert_to_tensor(gradient),
        )
