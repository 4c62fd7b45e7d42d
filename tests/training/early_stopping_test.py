"""Tests of early stopping across the processes of a run."""

import json
import math
import sys
from types import SimpleNamespace

import pytest

from t2t_keras.training.early_stopping import EarlyStopping

NAN, INF = math.nan, math.inf


def watch(stopping, values, metric="val_nll"):
    """Passes the validations of one process to a callback.

    Returns:
        Number of validations after which it stopped training, or None.
    """
    model = SimpleNamespace(stop_training=False)
    stopping.set_model(model)
    stopping.on_train_begin()
    for epoch, value in enumerate(values):
        stopping.on_epoch_end(epoch, {metric: value})
        if model.stop_training:
            return epoch + 1
    return None


def next_process(before, patience, metric="val_nll"):
    """Returns the callback of a process that resumes from a checkpoint."""
    stopping = EarlyStopping(metric, patience)
    stopping.restore(json.loads(json.dumps(before.state())))
    return stopping


@pytest.mark.parametrize(
    ("values", "patience", "ends_after"),
    [
        ([2.0, 2.0], 1, 2),
        ([3.0, 2.0, 2.5, 1.0, 1.0, 1.5, 0.5], 2, 6),
        ([3.0, 2.0, 2.5, 1.0, 1.0, 0.5, 0.4], 2, None),
        # A non-finite value is never an improvement, not even the first one.
        ([NAN, NAN, 1.0], 2, 2),
        ([INF, 5.0, NAN, 4.0, NAN, -INF, NAN, 3.0], 3, 7),
    ],
)
def test_run_resumed_at_any_point_stops_at_same_validation(
    values, patience, ends_after
):
    assert watch(EarlyStopping("val_nll", patience), values) == ends_after
    for cut in range(1, ends_after or len(values)):
        first = EarlyStopping("val_nll", patience)
        assert watch(first, values[:cut]) is None
        rest = watch(next_process(first, patience), values[cut:])
        assert rest == (ends_after and ends_after - cut), cut


def test_run_with_one_validation_per_process_stops():
    stopping = EarlyStopping("val_bleu", 2)
    found = []
    for value in (10.0, 20.0, 15.0, 20.0):
        found.append(watch(stopping, [value], "val_bleu"))
        assert stopping.is_exhausted == bool(found[-1])
        stopping = next_process(stopping, 2, "val_bleu")
    assert found == [None, None, None, 1]
    assert stopping.is_exhausted


def test_larger_or_no_patience_resumes_from_best_and_wait():
    stopped = EarlyStopping("val_nll", 1)
    assert watch(stopped, [1.0, 2.0]) == 2
    assert next_process(stopped, 1).is_exhausted
    larger = next_process(stopped, 3)
    assert not larger.is_exhausted
    assert watch(larger, [1.5, 1.5, 1.5]) == 2
    endless = next_process(stopped, None)
    assert watch(endless, [3.0] * 9) is None
    # Validations without a patience count when one is set later.
    assert next_process(endless, 10).is_exhausted
    assert not next_process(endless, 11).is_exhausted
    assert watch(next_process(endless, 11), [0.5, 0.6]) is None


def test_state_of_another_metric_is_ignored():
    before = EarlyStopping("val_nll", 2)
    watch(before, [1.0, 1.0])
    changed = next_process(before, 2, "val_bleu")
    assert (changed.best, changed.wait) == (None, 0)
    assert watch(changed, [30.0, 40.0, 35.0, 35.0], "val_bleu") == 4
    # Missing values do not count.
    assert watch(EarlyStopping("val_bleu", 1), [1.0] * 5) is None


def test_extra_validation_does_not_count():
    regular = []
    stopping = EarlyStopping("val_nll", 1, lambda: regular[-1])
    for value, counts in ((2.0, True), (1.0, False), (9.0, False), (1.5, True)):
        regular.append(counts)
        assert watch(stopping, [value]) is None
    assert stopping.state() == {"best": 1.5, "wait": 0, "metric": "val_nll"}


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
