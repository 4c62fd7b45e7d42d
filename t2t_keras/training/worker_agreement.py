"""Agreement of all workers on what happens next, so that none waits for another one."""

from typing import NamedTuple, Self

import numpy as np
import tensorflow as tf

from t2t_keras.training.strategy import worker_count, worker_index


class Actions(NamedTuple):
    """Actions after the next step. All workers take an action if any requests it.

    Attributes:
        validate: Validate and save.
        end: End the training.
        interrupt: Save and exit.
        cool_down: Start the cooldown of the learning rate.
    """

    validate: bool = False
    end: bool = False
    interrupt: bool = False
    cool_down: bool = False

    def to_tensor(self) -> tf.Tensor:
        """Returns the actions as `[4]` float64, to sum over replicas."""
        return tf.constant([float(action) for action in self], tf.float64)

    @classmethod
    def of_any(cls, sums: np.ndarray) -> Self:
        """Returns the actions that any worker requested.

        Args:
            sums: `[4]`, the sum of all workers' `to_tensor`.
        """
        return cls(*(sums > 0).tolist())


NO_ACTIONS = Actions()
"""Continue with the next step."""


class WorkerAgreement:
    """Lets the workers of a strategy agree. All workers must call the same methods.

    Args:
        strategy: The distribution strategy.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self._sum = tf.function(self._run_sum, autograph=False, reduce_retracing=True)

    def _run_sum(self, values: tf.Tensor) -> tf.Tensor:
        per_replica = self._strategy.run(lambda: values + 0)
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)

    def agree(self, requested: Actions) -> Actions:
        """Returns the actions requested by any worker."""
        return Actions.of_any(self._sum(requested.to_tensor()).numpy())

    def broadcast_from_chief(self, value: int) -> int:
        """Returns the value passed by the chief."""
        mine = value if worker_index(self._strategy) == 0 else 0
        total = self._sum(tf.constant([float(mine)], tf.float64)).numpy()[0]
        # Every replica of the chief has added its value.
        replicas = self._strategy.num_replicas_in_sync // worker_count(self._strategy)
        return round(total / replicas)

    def is_same_on_all_workers(self, value: int) -> bool:
        """Returns whether all workers passed the same value.

        Args:
            value: Integer from 0 to 2^16 - 1.
        """
        both = self._sum(tf.constant([value, value**2], tf.float64)).numpy()
        # Numbers are equal if and only if their variance is 0.
        return both[0] ** 2 == self._strategy.num_replicas_in_sync * both[1]
