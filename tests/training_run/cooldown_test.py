"""The cooldown of the learning rate, at the end of a budget or after early stopping."""

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
from t2t_keras.training.trainer import Votes
from t2t_keras.training_run.progress import Progress

ORDER = BatchOrder(Batching(batch_sentences=1), np.ones([7, 2], int))
"""Seven batches an epoch."""


def test_a_cooldown_takes_its_share_of_what_is_known_of_the_whole():
    # Three quarters are done after 300 updates: 100 are left.
    assert Cooldown.plan(300, 0.75, 0.25) == (300, 400)
    assert Cooldown.plan(304, 0.76, 0.25) == (304, 400)
    # Early stopping: a quarter of all follows, however much of the budget is left.
    assert Cooldown.plan(300, 0.1, 0.25) == (300, 400)
    # The last step is over before the cooldown could begin.
    assert Cooldown.plan(100, 1.0, 0.25) == (100, 101)


def test_the_rate_falls_linearly_and_is_positive_until_the_end():
    cooldown = Cooldown(4, 8)
    factors = [cooldown.rate_factor(step) for step in range(2, 10)]
    assert factors == pytest.approx([1, 1, 0.8, 0.6, 0.4, 0.2, 0, 0])


class FakeTrainer:
    """Counts steps, and notes what the learning rate was multiplied by in each."""

    def __init__(self, step=0):
        self.step = step
        self.model = SimpleNamespace(stop_training=False)
        self.factors = []

    def train_step(self, parts, votes, rate_factor):
        self.step += 1
        self.factors.append(round(rate_factor, 6))
        return {"loss": 1.0, "tokens": 10.0, "skipped": 0}, votes

    def agree(self, votes):
        return votes

    def of_chief(self, value):
        return value


def run(
    steps=40, share=0.25, patience=None, scores=None, state=None, stop=None, **budget
):
    """Trains in one process, validating every second step.

    Args:
        steps: The budget.
        share: The cooldown's.
        patience: That of early stopping.
        scores: Dev figures of steps; at all others the figure is the best so far.
        state: What an earlier process has saved.
        stop: The step after which the process is interrupted.
        budget: Other limits than steps.

    Returns:
        The factors of the learning rate, one a step, and what was saved at the end.
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
    stopping = EarlyStopping("val_nll", patience, lambda: not progress.cooldown)
    if state:
        stopping.restore(state["stopping"])
        progress.restore(state["progress"], stopping.is_exhausted)
    ended = progress.fraction() >= 1
    if not ended and not (stopping.is_exhausted and not progress.is_cooling_down()):
        fit(
            trainer,
            [],
            [progress, stopping],
            lambda: {"val_nll": scores.get(trainer.step, 1 / trainer.step)},
            progress.votes,
            progress.is_over,
            progress.epoch,
            progress.rate_factor,
            progress.cool_down,
        )
    state = {"stopping": stopping.state(), "progress": progress.state()}
    return trainer.factors, json.loads(json.dumps({**state, "step": trainer.step}))


FALLING = [round(left / 11, 6) for left in range(10, 0, -1)]
"""The ten steps of a cooldown of ten."""


def test_the_cooldown_is_the_last_share_of_a_budget_of_steps():
    factors, _ = run(steps=40, share=0.25)
    assert len(factors) == 40
    assert factors[:30] == [1.0] * 30
    assert factors[31:] == [round(left / 10, 6) for left in range(9, 0, -1)]
    assert run(steps=40, share=0.0)[0] == [1.0] * 40


def test_a_budget_of_epochs_cools_down_too():
    factors, _ = run(epochs=4, share=0.5)
    assert len(factors) == 28
    assert factors[:14] == [1.0] * 14
    assert factors[15:] == sorted(factors[15:], reverse=True)
    assert 0 < factors[-1] < 0.1


def test_early_stopping_begins_the_cooldown_that_the_budget_would_have_had():
    worse = {step: 2.0 for step in range(28, 200)}
    factors, state = run(steps=1000, patience=2, scores=worse)
    assert factors == [1.0] * 30 + FALLING
    # The same command line has nothing left to do.
    assert run(steps=1000, patience=2, scores=worse, state=state)[0] == []


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 40},
        {"epochs": 4},
        {"steps": 1000, "patience": 2, "scores": {s: 2.0 for s in range(28, 99)}},
        # In the cooldown, the figure gets better: it goes to its end nevertheless.
        {
            "steps": 1000,
            "patience": 2,
            "scores": {28: 2.0, 30: 2.0} | {s: 0.001 for s in range(32, 99)},
        },
    ],
)
def test_a_run_in_any_two_pieces_takes_the_same_learning_rates(options):
    whole, _ = run(**options)
    for stop in range(1, len(whole)):
        first, state = run(**options, stop=stop)
        assert len(first) == stop
        rest, _ = run(**options, state=state)
        assert first + rest == whole, stop


def test_a_larger_budget_or_patience_goes_on_at_the_usual_rate():
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
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(ValueError, match="cooldown must be at least 0 and below 1"):
        Progress(
            TrainingBudget(steps=1), FakeTrainer(), ORDER, 1, 1.0, bool, True, share
        )


def test_votes_of_a_worker_that_is_not_the_chief_ask_for_no_cooldown():
    trainer = FakeTrainer(step=39)
    arguments = (TrainingBudget(steps=40), trainer, ORDER, None, 1.0, bool)
    assert Progress(*arguments, True, 0.5).votes() == Votes(cool_down=True)
    assert Progress(*arguments, False, 0.5).votes() == Votes()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
