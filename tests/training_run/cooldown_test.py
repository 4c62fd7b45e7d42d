"""Tests of the learning rate cooldown: at the end of a budget, after early stopping."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from t2t_keras.data.batch_order import BatchOrder
from t2t_keras.data.batching import Batching
from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training.early_stopping import EarlyStopping
from t2t_keras.training.learning_rate_schedule import Cooldown
from t2t_keras.training.loop import fit
from t2t_keras.training.worker_agreement import Actions
from t2t_keras.training_run.progress import Progress

ORDER = BatchOrder(Batching(batch_sentences=1), np.ones([7, 2], int))
"""Seven batches per epoch."""


def test_cooldown_takes_its_share_of_all_updates():
    # 300 updates are 75% of the training, so 100 are left.
    assert Cooldown.plan(300, 0.75, 0.25) == (300, 400)
    assert Cooldown.plan(304, 0.76, 0.25) == (304, 400)
    # After early stopping, the cooldown is 25% of all updates, whatever is left of the
    # budget.
    assert Cooldown.plan(300, 0.1, 0.25) == (300, 400)
    # The budget was spent before the cooldown could begin.
    assert Cooldown.plan(100, 1.0, 0.25) == (100, 101)


def test_rate_factor_decreases_linearly_and_stays_positive_until_the_end():
    cooldown = Cooldown(4, 8)
    factors = [cooldown.rate_factor(step) for step in range(2, 10)]
    assert factors == pytest.approx([1, 1, 0.8, 0.6, 0.4, 0.2, 0, 0])


class FakeTrainer:
    """Counts steps and records the factor of the learning rate in each."""

    def __init__(self, step=0):
        self.step = step
        self.model = SimpleNamespace(stop_training=False)
        self.workers = self
        self.factors = []

    def train_step(self, parts, requested, rate_factor):
        self.step += 1
        self.factors.append(round(rate_factor, 6))
        return {"loss": 1.0, "tokens": 10.0, "skipped": 0}, requested

    def agree(self, requested):
        return requested

    def broadcast_from_chief(self, value):
        return value


def run(
    steps=40, share=0.25, patience=None, scores=None, state=None, stop=None, **budget
):
    """Trains in one process, validating every second step.

    Args:
        steps: Maximum number of steps.
        share: Fraction of the training in the cooldown.
        patience: Patience of early stopping.
        scores: Dev metric by step; at all other steps it is the best so far.
        state: State saved by an earlier process.
        stop: Step after which the process is interrupted.
        budget: Other limits, used instead of `steps`.

    Returns:
        The factor of the learning rate in each step, and the state at the end.
    """
    scores = scores or {}
    trainer = FakeTrainer(state["step"] if state else 0)
    progress = Progress(
        TrainingBudget(**(budget or {"steps": steps})),
        trainer,
        ORDER,
        checkpoint_steps=2,
        checkpoint_minutes=1.0,
        interrupted=lambda: trainer.step + 1 == stop,
        cooldown_share=share,
    )
    stopping = EarlyStopping(
        "val_nll", patience, lambda: not progress.cooldown.has_begun
    )
    if state:
        stopping.restore(state["stopping"])
        progress.restore(state["progress"], stopping.is_exhausted)
    ended = progress.fraction() >= 1
    if not ended and not (
        stopping.is_exhausted and not progress.cooldown.is_in_progress
    ):
        fit(
            trainer,
            [],
            [progress, stopping],
            lambda: {"val_nll": scores.get(trainer.step, 1 / trainer.step)},
            progress.requested_actions,
            progress.is_over,
            progress.epoch,
            progress.cooldown.rate_factor,
            progress.cool_down,
        )
    state = {"stopping": stopping.state(), "progress": progress.state()}
    return trainer.factors, json.loads(json.dumps({**state, "step": trainer.step}))


FALLING = [round(left / 11, 6) for left in range(10, 0, -1)]
"""Factors in a cooldown of ten steps."""


def test_cooldown_is_the_last_share_of_a_step_budget():
    factors, _ = run(steps=40, share=0.25)
    assert len(factors) == 40
    assert factors[:30] == [1.0] * 30
    assert factors[31:] == [round(left / 10, 6) for left in range(9, 0, -1)]
    assert run(steps=40, share=0.0)[0] == [1.0] * 40


def test_epoch_budget_ends_with_a_cooldown():
    factors, _ = run(epochs=4, share=0.5)
    assert len(factors) == 28
    assert factors[:14] == [1.0] * 14
    assert factors[15:] == sorted(factors[15:], reverse=True)
    assert 0 < factors[-1] < 0.1


def test_early_stopping_starts_the_cooldown():
    worse = {step: 2.0 for step in range(28, 200)}
    factors, state = run(steps=1000, patience=2, scores=worse)
    assert factors == [1.0] * 30 + FALLING
    # The same call has nothing left to train.
    assert run(steps=1000, patience=2, scores=worse, state=state)[0] == []


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 40},
        {"epochs": 4},
        {"steps": 1000, "patience": 2, "scores": {s: 2.0 for s in range(28, 99)}},
        # The metric improves during the cooldown, which still runs to its end.
        {
            "steps": 1000,
            "patience": 2,
            "scores": {28: 2.0, 30: 2.0} | {s: 0.001 for s in range(32, 99)},
        },
    ],
)
def test_run_interrupted_at_any_step_has_the_same_learning_rates(options):
    whole, _ = run(**options)
    for stop in range(1, len(whole)):
        first, state = run(**options, stop=stop)
        assert len(first) == stop
        rest, _ = run(**options, state=state)
        assert first + rest == whole, stop


def test_larger_budget_or_patience_resumes_at_the_scheduled_rate():
    _, state = run(steps=40)
    factors, _ = run(steps=80, state=state)
    assert factors[:20] == [1.0] * 20
    assert len(factors) == 40
    assert factors[-1] < 0.1

    worse = {step: 2.0 for step in range(28, 50)}
    _, state = run(steps=100, patience=2, scores=worse, stop=35)
    factors, _ = run(steps=100, patience=20, scores=worse, state=state)
    assert factors[:40] == [1.0] * 40
    assert len(factors) == 65


def test_early_stopping_waits_for_its_threshold():
    stopping = EarlyStopping("val_bleu", 1, threshold=20.0)
    seen = []
    for value in (10.0, 9.0, 19.0, 20.0, 19.0):
        stopping.set_model(SimpleNamespace(stop_training=False))
        stopping.on_epoch_end(0, {"val_bleu": value})
        seen.append(stopping.is_exhausted)
    assert seen == [False] * 4 + [True]
    lower = EarlyStopping("val_nll", 1, threshold=2.0)
    lower.restore({"metric": "val_nll", "best": 2.5, "wait": 3})
    assert not lower.is_exhausted
    lower.restore({"metric": "val_nll", "best": 1.5, "wait": 3})
    assert lower.is_exhausted


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_share_out_of_range_is_rejected(share):
    with pytest.raises(ValueError, match="cooldown must be at least 0 and below 1"):
        Progress(
            TrainingBudget(steps=1), FakeTrainer(), ORDER, 1, 1.0, bool, True, share
        )


def test_only_the_chief_requests_a_cooldown():
    trainer = FakeTrainer(step=39)
    arguments = (TrainingBudget(steps=40), trainer, ORDER, None, 1.0, bool)
    assert Progress(*arguments, True, 0.5).requested_actions() == Actions(
        cool_down=True
    )
    assert Progress(*arguments, False, 0.5).requested_actions() == Actions()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
