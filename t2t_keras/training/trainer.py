"""The training loop: ordinary Keras callbacks around `strategy.run`.

Keras's own `fit` averages the replicas' means whatever their token counts, and does
not run under `MultiWorkerMirroredStrategy`; this loop normalizes by the tokens of
the whole global batch, so that replicas and accumulation change nothing.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.tokens import BOS_ID, PAD_ID
from t2t_keras.training.losses import projected_token_losses
from t2t_keras.training.metrics import FIELDS, token_metrics, token_sums
from t2t_keras.transformer import Transformer

Batch = dict[str, tf.Tensor]

_SIGNATURE = {
    "source": tf.TensorSpec([None, None], tf.int32),
    "target": tf.TensorSpec([None, None], tf.int32),
    "batch_target_tokens": tf.TensorSpec([], tf.int64),
}

PLACE = ("epoch", "batch", "batches")
"""The entries of a batch that say where it stands in the order of the data."""


class Trainer:
    """Trains a Transformer on parts of global batches.

    Args:
        model: The model, created in the strategy's scope.
        optimizer: An `Adam` of this package, created there too.
        label_smoothing: Share of probability spread over the vocabulary. Default 0.1.
        clip_norm: Greatest norm of the whole gradient. Default no clipping.
        accumulate: Parts that a replica computes one after another for one update.
            Default 1.
        strategy: How replicas work together. Default the current one.
        jit: Whether XLA compiles the replica's step. Default False.

    Raises:
        ValueError: If an argument is out of its range.
    """

    def __init__(
        self,
        model: Transformer,
        optimizer: keras.optimizers.Optimizer,
        label_smoothing: float = 0.1,
        clip_norm: float | None = None,
        accumulate: int = 1,
        strategy: tf.distribute.Strategy | None = None,
        jit: bool = False,
    ) -> None:
        if not 0 <= label_smoothing < 1:
            raise ValueError(
                "label_smoothing is at least 0 and below 1. Received: "
                f"{label_smoothing}"
            )
        if clip_norm is not None and clip_norm <= 0:
            raise ValueError(
                f"clip_norm is positive, or None for no clipping. Received: {clip_norm}"
            )
        self.model = model
        self.optimizer = optimizer
        self.label_smoothing = label_smoothing
        self.clip_norm = clip_norm
        self.accumulate = accumulate
        self.strategy = strategy or tf.distribute.get_strategy()
        # Keras's own callbacks ask the model for its optimizer.
        model.optimizer = optimizer
        self._variables = [v.value for v in model.trainable_variables]
        with self.strategy.scope():
            optimizer.build(model.trainable_variables)
            # Each replica sums its own parts; the sum over replicas is taken once.
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
            tf.function(self._replica_gradients, jit_compile=True)
            if jit
            else self._replica_gradients
        )
        # Given the iterator, whose shapes are open, one trace serves all batches.
        self._accumulate = tf.function(self._run_accumulate)
        self._update = tf.function(self._run_update)
        self._evaluate = tf.function(
            self._run_evaluate, input_signature=[_SIGNATURE], autograph=False
        )

    @property
    def step(self) -> int:
        """Number of updates done."""
        return int(self.optimizer.iterations.numpy())

    def _losses(self, batch: Batch, training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the summed smoothed loss and the vector of metric sums."""
        target = batch["target"]
        shifted = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=BOS_ID)
        states = self.model.target_states(
            {"source": batch["source"], "target": shifted}, training=training
        )
        # [batch, target] -> [batch * target]
        labels = tf.reshape(target, [-1])
        smoothed, nll, correct = projected_token_losses(
            labels,
            tf.reshape(states, [-1, states.shape[-1]]),
            self.model.target_embedding.embeddings.value,
            self.label_smoothing,
        )
        total = tf.reduce_sum(tf.where(labels != PAD_ID, smoothed, 0.0))
        sums = token_sums(batch["source"], labels, smoothed, nll, correct)
        return total, sums

    def _replica_gradients(self, batch: Batch) -> tuple[list[tf.Tensor], tf.Tensor]:
        with tf.GradientTape() as tape:
            total, sums = self._losses(batch, training=True)
            loss = total / tf.cast(batch["batch_target_tokens"], total.dtype)
        gradients = tape.gradient(loss, self._variables)
        return [tf.convert_to_tensor(g) for g in gradients], sums

    def _run_accumulate(self, parts: Iterator[Batch]) -> tf.Tensor:
        def replica_step(batch: Batch) -> tf.Tensor:
            gradients, sums = self._gradients(_tensors(batch))
            for accumulator, gradient in zip(
                self._accumulators, gradients, strict=True
            ):
                accumulator.assign_add(gradient)
            return sums

        return self._sum(self.strategy.run(replica_step, args=(next(parts),)))

    def _run_update(
        self, parts: Iterator[Batch]
    ) -> tuple[tf.Tensor, tf.Tensor, dict[str, tf.Tensor]]:
        def replica_step(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
            gradients, sums = self._gradients(_tensors(batch))
            if self._accumulators:
                gradients = [
                    gradient + accumulator
                    for gradient, accumulator in zip(
                        gradients, self._accumulators, strict=True
                    )
                ]
                for accumulator in self._accumulators:
                    accumulator.assign(tf.zeros_like(accumulator))
            replica = tf.distribute.get_replica_context()
            gradients = replica.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
            norm = tf.linalg.global_norm(gradients)
            if self.clip_norm:
                gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm, norm)
            self.optimizer.apply(gradients, self.model.trainable_variables)
            return sums, norm

        batch = next(parts)
        sums, norm = self.strategy.run(replica_step, args=(batch,))
        place = {name: self._first(batch[name]) for name in PLACE}
        return self._sum(sums), self._first(norm), place

    def _first(self, per_replica: Any) -> tf.Tensor:
        return self.strategy.experimental_local_results(per_replica)[0]

    def _sum(self, per_replica: Any) -> tf.Tensor:
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)

    def _run_evaluate(self, batch: Batch) -> tf.Tensor:
        return self._losses(batch, training=False)[1]

    def train_step(self, parts: Iterator[Batch]) -> dict[str, float]:
        """Consumes one global batch and updates the weights once.

        Args:
            parts: An iterator over `training_dataset`.

        Returns:
            The batch's metrics (`token_metrics`, "learning_rate", "gradient_norm")
            and its place in the data (`PLACE`).
        """
        learning_rate = float(self.optimizer.learning_rate)
        sums: Any = 0.0
        for _ in range(self.accumulate - 1):
            sums = sums + self._accumulate(parts)
        last, norm, place = self._update(parts)
        logs = token_metrics((sums + last).numpy())
        logs["learning_rate"] = learning_rate
        logs["gradient_norm"] = float(norm)
        logs |= {name: int(value) for name, value in place.items()}
        return logs

    def evaluate(self, dataset: Iterable[Batch]) -> dict[str, float]:
        """Computes the metrics of held-back data, without dropout.

        Args:
            dataset: A `training_dataset` of one epoch.
        """
        sums = np.zeros(len(FIELDS), np.float64)
        for batch in dataset:
            sums += self._evaluate(_tensors(batch)).numpy()
        return token_metrics(sums)

    def fit(
        self,
        dataset: tf.data.Dataset,
        callbacks: Iterable[keras.callbacks.Callback],
        validate: Callable[[], dict[str, float]],
        is_interval_over: Callable[[], bool],
        is_over: Callable[[dict[str, float]], bool],
    ) -> None:
        """Trains until told to stop.

        To a callback an epoch is what lies between two validations, as with Keras's
        `fit(steps_per_epoch=...)`.

        Args:
            dataset: An endless `training_dataset`.
            callbacks: Keras callbacks. `on_train_batch_end` receives the metrics of
                `train_step` with "tokens_per_second"; `on_epoch_end` the mean loss and
                what `validate` returned.
            validate: Computes the figures of held-back data, named "val_...".
            is_interval_over: Asked after each step whether to validate now.
            is_over: Asked after each step whether to stop; receives the metrics.
        """
        callback_list = keras.callbacks.CallbackList(
            list(callbacks), add_history=False, model=self.model
        )
        self.model.stop_training = False
        parts = iter(dataset)
        callback_list.on_train_begin()
        interval, done = 0, False
        while not done:
            callback_list.on_epoch_begin(interval)
            losses = []
            while True:
                step = self.step
                callback_list.on_train_batch_begin(step)
                started = time.perf_counter()
                logs = self.train_step(parts)
                seconds = time.perf_counter() - started
                logs["tokens_per_second"] = logs["tokens"] / seconds
                losses.append(logs["loss"])
                callback_list.on_train_batch_end(step, logs)
                done = is_over(logs) or self.model.stop_training
                if done or is_interval_over():
                    break
            logs = {"loss": float(np.mean(losses)), **validate()}
            callback_list.on_epoch_end(interval, logs)
            done = done or self.model.stop_training
            interval += 1
        callback_list.on_train_end()


def _tensors(part: Batch) -> Batch:
    return {name: part[name] for name in _SIGNATURE}
