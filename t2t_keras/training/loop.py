"""The training loop: ordinary Keras callbacks around `Trainer.train_step`."""

import time
from collections.abc import Callable, Iterable

import keras
import numpy as np
import tensorflow as tf

from t2t_keras.training.trainer import Trainer, Votes


def fit(
    trainer: Trainer,
    dataset: tf.data.Dataset,
    callbacks: Iterable[keras.callbacks.Callback],
    validate: Callable[[], dict[str, float]],
    votes: Callable[[], Votes],
    is_over: Callable[[], bool],
    initial_epoch: int = 0,
    rate_factor: Callable[[], float] = lambda: 1.0,
    cool_down: Callable[[bool], bool] = lambda stopped_early: False,
) -> bool:
    """Trains until told to stop.

    To a callback an epoch is what lies between two validations, as with Keras's
    `fit(steps_per_epoch=...)`. A validation that is due after a step whose update was
    left out waits for the next update, so that there is one validation of a step.

    Args:
        trainer: Takes the steps.
        dataset: What `Trainer.distribute` made of an endless `training_dataset`.
        callbacks: Keras callbacks. `on_train_batch_end` receives what `train_step`
            returned and "tokens_per_second"; `on_epoch_end` the mean loss and what
            `validate` returned.
        validate: Computes the figures of held-back data, named "val_...".
        votes: Asked before each step what this worker wants to be done after it.
        is_over: Asked after each step whether the budget is spent; every worker's
            answer must be the same.
        initial_epoch: Number of the first epoch: that of the validations in earlier
            processes when training continues, so that callbacks which go by the epoch
            see no restart. Default 0.
        rate_factor: Asked before each step what to multiply the learning rate by.
            Default 1.
        cool_down: Called when any worker has voted for a cooldown, and, with True,
            after each validation at which a callback wants to end training. Returns
            whether training goes on with a learning rate that falls to zero. Default:
            there is no cooldown.

    Returns:
        Whether training came to its end, rather than was interrupted.
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
            logs, agreed = trainer.train_step(parts, votes(), rate_factor())
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
        # A callback sees only its own worker; early stopping is everyone's business.
        # And none goes on, or ends, before the chief has saved.
        stopped = trainer.agree(Votes(end=bool(model.stop_training))).end
        done = done or (stopped and not cool_down(True))
        if agreed.interrupt:
            break
        epoch += 1
    callback_list.on_train_end()
    return done
