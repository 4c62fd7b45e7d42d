"""The training step around `strategy.run`, for any number of replicas.

Keras's `fit` averages the mean losses of the replicas without regard to their token
counts, and does not run under `MultiWorkerMirroredStrategy`. This step normalizes by
the tokens of the global batch, so that the result depends neither on the number of
replicas nor on gradient accumulation.
"""

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.errors import UserError
from t2t_keras.layers.gradient_lifetime import free_gradient_with_graph
from t2t_keras.training.loss_scale import LossScale
from t2t_keras.training.metrics import FIELDS, token_metrics
from t2t_keras.training.objective import Batch, Objective
from t2t_keras.training.optimizer import Adam
from t2t_keras.training.weight_averaging import ExponentialAverage
from t2t_keras.training.worker_agreement import NO_ACTIONS, Actions, WorkerAgreement
from t2t_keras.transformer import Transformer


class Trainer:
    """Trains a Transformer on the parts of global batches.

    Args:
        model: The model, created in the strategy's scope.
        optimizer: The optimizer, created in the strategy's scope too.
        objective: The loss to minimize. Default: `Objective()`.
        clip_norm: Maximum global norm of the gradient. Default: no clipping.
        accumulate: Number of parts whose gradients each replica accumulates for one
            update. Default 1.
        strategy: The distribution strategy. Default: the current one.
        jit: Whether to compile the replica's step with XLA. Default False.
        ema_decay: Decay of an exponential average of the weights. Default: no
            average.

    Attributes:
        ema: The `ExponentialAverage`, or None.
        workers: Lets the workers agree on values and actions.

    Raises:
        UserError: If an argument is out of range.
    """

    def __init__(
        self,
        model: Transformer,
        optimizer: Adam,
        objective: Objective | None = None,
        clip_norm: float | None = None,
        accumulate: int = 1,
        strategy: tf.distribute.Strategy | None = None,
        jit: bool = False,
        ema_decay: float | None = None,
    ) -> None:
        if clip_norm is not None and not clip_norm > 0:
            raise UserError(
                f"clip_norm must be positive or None. Received: {clip_norm}"
            )
        if accumulate < 1:
            raise UserError(f"accumulate must be at least 1. Received: {accumulate}")
        self.model = model
        self.optimizer = optimizer
        self.objective = objective or Objective()
        self.clip_norm = clip_norm
        self.accumulate = accumulate
        self.strategy = strategy or tf.distribute.get_strategy()
        self.workers = WorkerAgreement(self.strategy)
        # Keras's callbacks read the optimizer from the model.
        model.optimizer = optimizer
        self._variables = [v.value for v in model.trainable_variables]
        with self.strategy.scope():
            optimizer.build(model.trainable_variables)
            self.ema = (
                ExponentialAverage(model.trainable_variables, ema_decay)
                if ema_decay
                else None
            )
            self._loss_scale = LossScale() if model.compute_dtype == "float16" else None
            # Each replica sums its own parts; replicas are summed once per update.
            self._accumulators = [
                tf.Variable(
                    tf.zeros_like(v),
                    trainable=False,
                    synchronization=tf.VariableSynchronization.ON_READ,
                    aggregation=tf.VariableAggregation.SUM,
                )
                for v in (self._variables if accumulate > 1 else [])
            ]
        self._gradients = (
            tf.function(self._replica_gradients, jit_compile=True, autograph=False)
            if jit
            else self._replica_gradients
        )
        # An iterator has unknown shapes, so that one trace serves all batches.
        self._accumulate = tf.function(self._run_accumulate, autograph=False)
        self._update = tf.function(self._run_update, autograph=False)
        self._evaluate = tf.function(self._run_evaluate, autograph=False)

    @property
    def state_variables(self) -> list[keras.Variable]:
        """The variables to save in a checkpoint besides those of the model."""
        variables = list(self.optimizer.variables)
        for part in (self._loss_scale, self.ema):
            variables += part.variables if part else []
        return variables

    @property
    def replicas(self) -> int:
        """Number of replicas of all workers."""
        return self.strategy.num_replicas_in_sync

    def distribute(self, dataset: Callable[..., tf.data.Dataset]) -> tf.data.Dataset:
        """Distributes the parts of each global batch among the replicas.

        Args:
            dataset: Returns the `training_dataset` of a worker, given `parts`, the
                number of parts of a global batch, and `own_parts`, the worker's.

        Returns:
            A dataset whose iterators `train_step` and `evaluate` consume.
        """

        def worker_dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
            local = self.replicas // context.num_input_pipelines
            first = context.input_pipeline_id * local
            own = [
                turn * self.replicas + first + replica
                for turn in range(self.accumulate)
                for replica in range(local)
            ]
            return dataset(parts=self.replicas * self.accumulate, own_parts=own)

        return self.strategy.distribute_datasets_from_function(worker_dataset)

    @property
    def step(self) -> int:
        """Number of completed updates."""
        return int(self.optimizer.iterations.numpy())

    def _replica_gradients(self, batch: Batch) -> tuple[list[tf.Tensor], tf.Tensor]:
        with tf.GradientTape() as tape:
            total, sums = self.objective(self.model, batch, training=True)
            loss = total / tf.cast(batch["batch_target_tokens"], total.dtype)
            if self._loss_scale:
                loss *= self._loss_scale.scale.value
        gradients = tape.gradient(loss, self._variables)
        return [tf.convert_to_tensor(g) for g in gradients], sums

    def _run_accumulate(self, parts: Iterator[Batch]) -> tf.Tensor:
        def replica_step(batch: Batch) -> tf.Tensor:
            gradients, sums = self._gradients(batch)
            for accumulator, gradient in zip(
                self._accumulators, gradients, strict=True
            ):
                accumulator.assign_add(gradient)
            return sums

        return self._sum(self.strategy.run(replica_step, args=(next(parts),)))

    def _run_update(
        self, parts: Iterator[Batch], requested: tf.Tensor, rate_factor: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        def replica_step(batch: Batch) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
            gradients, sums = self._gradients(batch)
            if self._accumulators:
                gradients = [
                    gradient + accumulator
                    for gradient, accumulator in zip(
                        gradients, self._accumulators, strict=True
                    )
                ]
                for accumulator in self._accumulators:
                    accumulator.assign(tf.zeros_like(accumulator))
            learning_rate = tf.convert_to_tensor(self.optimizer.learning_rate)
            learning_rate *= tf.cast(rate_factor, learning_rate.dtype)
            norm = self._replica_update(gradients, rate_factor)
            figures = {"learning_rate": learning_rate, "gradient_norm": norm}
            return tf.concat([sums, requested], axis=0), figures

        sums, logs = self.strategy.run(replica_step, args=(next(parts),))
        return self._sum(sums), {name: self._first(x) for name, x in logs.items()}

    def _replica_update(
        self, gradients: list[tf.Tensor], rate_factor: tf.Tensor
    ) -> tf.Tensor:
        """Sums the gradients of all replicas and updates, unless one is not finite.

        Returns:
            The global norm of the gradient before clipping.
        """
        replica = tf.distribute.get_replica_context()
        gradients = replica.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        free_gradient_with_graph(gradients[0])
        if self._loss_scale:
            factor = 1 / self._loss_scale.scale.value
            gradients = [gradient * factor for gradient in gradients]
        norm = tf.linalg.global_norm(gradients)
        is_finite = tf.math.is_finite(norm)
        if self.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm, norm)

        def update() -> tf.Tensor:
            self.optimizer.update(gradients, rate_factor)
            if self.ema:
                self.ema.update(self.optimizer.iterations.value)
            return is_finite

        tf.cond(is_finite, update, lambda: is_finite)
        if self._loss_scale:
            self._loss_scale.update(is_finite)
        return norm

    def _first(self, per_replica: Any) -> tf.Tensor:
        return self.strategy.experimental_local_results(per_replica)[0]

    def _sum(self, per_replica: Any) -> tf.Tensor:
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)

    def _run_evaluate(self, parts: Iterator[Batch]) -> tf.Tensor:
        def replica_step(batch: Batch) -> tf.Tensor:
            return self.objective(self.model, batch, training=False)[1]

        return self._sum(self.strategy.run(replica_step, args=(next(parts),)))

    def train_step(
        self,
        parts: Iterator[Batch],
        requested: Actions = NO_ACTIONS,
        rate_factor: float = 1.0,
    ) -> tuple[dict[str, float], Actions]:
        """Consumes one global batch and updates the weights once.

        The update is skipped if the gradient is not finite.

        Args:
            parts: An iterator over the dataset that `distribute` returned.
            requested: Actions that this worker requests after the step.
            rate_factor: Factor of the scheduled learning rate; the same in all
                workers. Default 1.

        Returns:
            The metrics of the batch (`token_metrics`, "learning_rate", "gradient_norm"
            and "skipped", 1 for a skipped update), and the actions requested by any
            worker.
        """
        sums: Any = 0.0
        for _ in range(self.accumulate - 1):
            sums = sums + self._accumulate(parts)
        factor = tf.constant(rate_factor, tf.float32)
        last, figures = self._update(parts, requested.to_tensor(), factor)
        counted, agreed = np.split(last.numpy(), [len(FIELDS)])
        logs = token_metrics(counted + np.asarray(sums))
        logs |= {name: figures[name].numpy().item() for name in figures}
        logs["skipped"] = 0 if np.isfinite(logs["gradient_norm"]) else 1
        return logs, Actions.of_any(agreed)

    def evaluate(self, parts: Iterator[Batch], batches: int) -> dict[str, float]:
        """Computes the metrics of held-out data, without dropout.

        Args:
            parts: An iterator over the dataset that `distribute` returned.
            batches: Number of global batches to take.
        """
        sums = np.zeros(len(FIELDS), np.float64)
        for _ in range(batches * self.accumulate):
            sums += self._evaluate(parts).numpy()
        return token_metrics(sums)
