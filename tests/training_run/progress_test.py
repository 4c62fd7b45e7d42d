"""Tests of the progress of a run, which an interruption must not change."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from t2t_keras.data.batch_order import BatchOrder
from t2t_keras.data.batching import Batching
from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training_run import progress
from t2t_keras.training_run.progress import Progress

ORDER = BatchOrder(Batching(batch_sentences=1), np.ones([3, 2], int))
"""Three batches per epoch."""


class Clock:
    """Replaces the module `time` by a clock set in minutes."""

    def __init__(self):
        self.minutes = 0.0

    def monotonic(self):
        return 60 * self.minutes


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def make_progress(before=None, step=0, checkpoint_steps=None):
    """Returns the progress of a new process, restored from the state `before`."""
    made = Progress(
        TrainingBudget(steps=100),
        SimpleNamespace(step=step),
        ORDER,
        checkpoint_steps,
        checkpoint_minutes=10.0,
        interrupted=lambda: False,
    )
    if before is not None:
        made.restore(json.loads(json.dumps(before)))
    return made


def test_validation_interval_counts_minutes_of_all_processes(clock):
    first = make_progress()
    clock.minutes = 7.0
    assert not first.requested_actions().validate
    state = first.state()
    # Another process starts an hour later.
    clock.minutes = 67.0
    second = make_progress(state)
    clock.minutes = 69.0
    assert not second.requested_actions().validate
    clock.minutes = 70.5
    assert second.requested_actions().validate
    second.on_epoch_end(second.epoch)
    assert not second.requested_actions().validate
    assert second.epoch == 1
    state = second.state()
    clock.minutes = 80.0
    third = make_progress(state)
    clock.minutes = 89.0
    assert not third.requested_actions().validate
    clock.minutes = 90.5
    assert third.requested_actions().validate


def test_extra_validation_at_the_end_of_a_budget_completes_no_interval():
    regular = make_progress(step=8, checkpoint_steps=4)
    assert regular.is_regular()
    regular.on_epoch_end(1)
    assert regular.state()["epoch"] == 2
    extra = make_progress(regular.state(), step=10, checkpoint_steps=4)
    assert not extra.is_regular()
    extra.on_epoch_end(extra.epoch)
    assert extra.state()["epoch"] == 2
    # With intervals in minutes, every validation is regular.
    assert make_progress(step=10).is_regular()


def test_state_of_older_versions_is_restored(clock):
    state = make_progress().state()
    state |= {"minutes": 30.0, "position": {"epoch": 2, "batch": 1}}
    del state["minutes_validated"], state["epoch"]
    continued = make_progress(state)
    assert continued.epochs() == 7 / 3
    clock.minutes = 9.0
    assert not continued.requested_actions().validate
    clock.minutes = 10.5
    assert continued.requested_actions().validate


def test_each_step_advances_by_one_batch_even_if_its_update_is_skipped():
    progress, seen = make_progress(), []
    for skipped in (0, 1, 0, 0, 1, 0, 0):
        progress.on_train_batch_end(0, {"tokens": 1.0, "skipped": skipped})
        seen.append((tuple(progress.position), round(progress.epochs(), 2)))
    assert [position for position, _ in seen] == [
        *((0, 1), (0, 2), (1, 0)),
        *((1, 1), (1, 2), (2, 0)),
        (2, 1),
    ]
    assert [epochs for _, epochs in seen] == [0.33, 0.67, 1, 1.33, 1.67, 2, 2.33]
    assert progress.state()["epochs"] == progress.epochs()
    assert make_progress(progress.state()).position == (2, 1)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
