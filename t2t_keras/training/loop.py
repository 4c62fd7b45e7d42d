"""The training loop: Keras callbacks around `Trainer.train_step`."""

import time
from collections.abc import Callable, Iterable

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.training.trainer import Trainer
from t2t_keras.training.worker_agreement import Actions


def fit(
    trainer: Trainer,
    dataset: tf.data.Dataset,
    callbacks: Iterable[keras.callbacks.Callback],
    validate: Callable[[], dict[str, float]],
    requested_actions: Callable[[], Actions],
    is_over: Callable[[], bool],
    initial_epoch: int = 0,
    rate_factor: Callable[[], float] = lambda: 1.0,
    cool_down: Callable[[bool], bool] = lambda stopped_early: False,
) -> bool:
    """Trains until told to stop.

    For callbacks, an epoch is the interval between two validations, as with the
    `steps_per_epoch` of Keras's `fit`. A validation that is due after a skipped update
    waits for the next update, so that each step is validated at most once.

    Args:
        trainer: The trainer, which takes the steps.
        dataset: An infinite `training_dataset`, distributed by `Trainer.distribute`.
        callbacks: Keras callbacks. `on_train_batch_end` receives the logs of
            `train_step` and "tokens_per_second"; `on_epoch_end` receives the mean
            loss and the metrics of `validate`.
        validate: Returns the metrics of the held-out data, named "val_...".
        requested_actions: Called before each step; returns the actions that this worker
            requests after it.
        is_over: Called after each step; returns whether the budget is spent. All
            workers must return the same value.
        initial_epoch: Number of the first epoch. For a resumed run, the number of
            validations in earlier processes, so that callbacks see no restart.
            Default 0.
        rate_factor: Called before each step; returns the factor of the learning rate.
            Default 1.
        cool_down: Called with False when any worker has requested a cooldown, and
            with True after each validation at which a callback stops training.
            Returns whether training continues with a learning rate that falls to
            zero. Default: no cooldown.

    Returns:
        True if training finished, False if it was interrupted.
    """
    model = trainer.model
    callback_list = keras.callbacks.CallbackList(
        list(callbacks), add_history=False, model=model
    )
    model.stop_training = False
    parts = iter(dataset)
    callback_list.on_train_begin()
    epoch, done = initial_epoch, False
    while not done:
        callback_list.on_epoch_begin(epoch)
        losses = []
        while True:
            step = trainer.step
            callback_list.on_train_batch_begin(step)
            started = time.perf_counter()
            logs, agreed = trainer.train_step(parts, requested_actions(), rate_factor())
            seconds = time.perf_counter() - started
            logs["tokens_per_second"] = logs["tokens"] / seconds
            losses.append(logs["loss"])
            callback_list.on_train_batch_end(step, logs)
            if agreed.cool_down:
                cool_down(False)
            done = agreed.end or is_over()
            due = agreed.validate and not logs["skipped"]
            if done or due or agreed.interrupt:
                break
        if agreed.interrupt and not (done or due):
            break
        callback_list.on_epoch_end(
            epoch, {"loss": float(np.mean(losses)), **validate()}
        )
        # Callbacks run in one worker, but early stopping must end all of them.
        # This also makes every worker wait until the chief has saved.
        stopped = trainer.workers.agree(Actions(end=bool(model.stop_training))).end
        done = done or (stopped and not cool_down(True))
        if agreed.interrupt:
            break
        epoch += 1
    callback_list.on_train_end()
    return done
