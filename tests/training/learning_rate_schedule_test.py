"""Tests of the warm-up schedule and the training budget."""

import sys

import numpy as np
import pytest

from t2t_keras.training.budget import TrainingBudget
from t2t_keras.training.learning_rate_schedule import WarmupSchedule


def test_schedule_matches_equation_3():
    schedule = WarmupSchedule(d_model=512, warmup_steps=4000)
    # The peak is 512^-0.5 * 4000^-0.5. Step 0 here is the paper's step 1.
    assert float(schedule(3999)) == pytest.approx(6.98771e-4, rel=1e-5)
    assert float(schedule(0)) == pytest.approx(512**-0.5 * 4000**-1.5, rel=1e-5)
    assert float(schedule(1999)) == pytest.approx(6.98771e-4 / 2, rel=1e-5)
    assert float(schedule(15999)) == pytest.approx(6.98771e-4 / 2, rel=1e-5)
    rates = [float(schedule(step)) for step in range(0, 20000, 500)]
    assert int(np.argmax(rates)) == 8


def test_learning_rate_scales_schedule_and_config_round_trips():
    schedule = WarmupSchedule(16, 10, learning_rate=3.0)
    same = WarmupSchedule.from_config(schedule.get_config())
    plain = WarmupSchedule(16, 10)
    assert float(schedule(5)) == pytest.approx(3 * float(plain(5))) == float(same(5))
    with pytest.raises(ValueError, match="0"):
        WarmupSchedule(16, 0)


def test_budget_ends_at_first_limit():
    budget = TrainingBudget(steps=100, minutes=10)
    assert budget.fraction(steps=50, epochs=9, tokens=9, minutes=2) == 0.5
    assert budget.fraction(steps=50, epochs=9, tokens=9, minutes=8) == 0.8
    assert budget.fraction(steps=200, epochs=9, tokens=9, minutes=8) == 1
    assert TrainingBudget(epochs=2).fraction(0, 0.5, 0) == 0.25
    assert TrainingBudget(epochs=2, tokens=1e6).fraction(9, 1, 9e5) == 0.9
    for limits in ({}, {"steps": 0}, {"minutes": -1}):
        with pytest.raises(ValueError, match="limit"):
            TrainingBudget(**limits)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
