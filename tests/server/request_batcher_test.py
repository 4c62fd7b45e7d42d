"""The batcher joins requests and returns each its own rows, even if others fail."""

import sys
import threading

import numpy as np
import pytest

from t2t_keras.server.request_batcher import Batcher
from t2t_keras.server.serving_errors import ServingError


class Gate:
    """A model that waits until it is opened, and records its batches."""

    def __init__(self, fails_on=None):
        self.open = threading.Event()
        self.entered = threading.Semaphore(0)
        self.batches = []
        self.fails_on = fails_on

    def __call__(self, inputs, seconds):
        self.batches.append(inputs["x"].tolist())
        self.entered.release()
        assert self.open.wait(30)
        if self.fails_on in inputs["x"]:
            raise ValueError("bad row")
        return {"y": inputs["x"] * 10}


@pytest.fixture
def gate():
    return Gate()


def batcher_of(**arguments):
    return Batcher(**{"num_batch_threads": 1, **arguments})


def rows(*values):
    return {"x": np.array(values)}


def blocked_batcher(gate, **arguments):
    """Returns a batcher whose only thread is busy with the row 0."""
    batcher = batcher_of(**arguments)
    first = batcher.submit("key", gate, rows(0))
    assert gate.entered.acquire(timeout=30)
    return batcher, first


def test_waiting_requests_are_joined_and_split_again(gate):
    batcher, first = blocked_batcher(gate)
    futures = [batcher.submit("key", gate, rows(*r)) for r in [(1,), (2, 3), (4,)]]
    gate.open.set()
    outputs = [future.result(30)["y"].tolist() for future in [first, *futures]]
    assert outputs == [[0], [10], [20, 30], [40]]
    assert gate.batches == [[0], [1, 2, 3, 4]]
    batcher.close()


def test_batch_size_is_limited_and_large_request_runs_alone(gate):
    batcher, _ = blocked_batcher(gate, max_batch_size=3)
    futures = [
        batcher.submit("key", gate, rows(*r)) for r in [(1, 2), (3, 4), (5,), range(9)]
    ]
    gate.open.set()
    assert futures[-1].result(30)["y"].tolist() == [10 * n for n in range(9)]
    assert gate.batches == [[0], [1, 2], [3, 4, 5], list(range(9))]
    batcher.close()


def test_other_keys_and_shapes_are_not_joined(gate):
    batcher, _ = blocked_batcher(gate)
    futures = [
        batcher.submit("key", gate, rows(1)),
        batcher.submit("other", gate, rows(2)),
        batcher.submit("key", gate, {"x": np.array([[3, 4]])}),
        batcher.submit("key", gate, rows(5), joinable=False),
        batcher.submit("key", gate, rows(6), joinable=False),
    ]
    gate.open.set()
    for future in futures:
        future.result(30)
    assert gate.batches == [[0], [1], [2], [[3, 4]], [5], [6]]
    batcher.close()


def test_requests_that_run_alone_take_turns_with_other_keys(gate):
    batcher, _ = blocked_batcher(gate)
    futures = [
        *(batcher.submit("huge", gate, rows(n), joinable=False) for n in range(1, 5)),
        batcher.submit("key", gate, rows(5)),
        batcher.submit("alone", gate, rows(6), joinable=False),
    ]
    gate.open.set()
    for future in futures:
        future.result(30)
    assert gate.batches == [[0], [1], [5], [6], [2], [3], [4]]
    batcher.close()


def test_bad_request_fails_alone():
    gate = Gate(fails_on=2)
    batcher, _ = blocked_batcher(gate)
    good, bad, also_good = (batcher.submit("key", gate, rows(n)) for n in (1, 2, 3))
    gate.open.set()
    assert good.result(30)["y"].tolist() == [10]
    assert also_good.result(30)["y"].tolist() == [30]
    with pytest.raises(ValueError, match="bad row"):
        bad.result(30)
    batcher.close()


def test_model_that_mixes_rows_runs_requests_one_by_one():
    gate = Gate()
    batcher, _ = blocked_batcher(gate)

    def mean(inputs, seconds):
        return {"y": inputs["x"].mean(keepdims=True)}

    futures = [batcher.submit("mean", mean, rows(*r)) for r in [(1, 3), (10, 20)]]
    gate.open.set()
    assert [f.result(30)["y"].tolist() for f in futures] == [[2], [15]]
    batcher.close()


def test_cancelled_request_is_not_computed(gate):
    batcher, _ = blocked_batcher(gate)
    cancelled, kept = (batcher.submit("key", gate, rows(n)) for n in (1, 2))
    assert cancelled.cancel()
    gate.open.set()
    assert kept.result(30)["y"].tolist() == [20]
    assert gate.batches == [[0], [2]]
    batcher.close()


def test_cancelled_request_frees_its_place(gate):
    batcher, _ = blocked_batcher(gate, max_batch_size=2, max_enqueued_batches=1)
    for _ in range(10):
        assert batcher.submit("key", gate, rows(1, 2)).cancel()
        alone = batcher.submit("alone", gate, rows(1, 2), joinable=False)
        assert alone.cancel()
    kept = batcher.submit("key", gate, rows(3, 4))
    gate.open.set()
    assert kept.result(30)["y"].tolist() == [30, 40]
    assert gate.batches == [[0], [3, 4]]
    batcher.close()


def test_only_joinable_requests_wait_for_more():
    gate = Gate()
    gate.open.set()
    batcher = batcher_of(max_batch_size=2, batch_timeout_micros=3_600_000_000)
    waiting = batcher.submit("key", gate, rows(1))
    alone = batcher.submit("alone", gate, rows(2), joinable=False)
    assert alone.result(30)["y"].tolist() == [20]
    full = batcher.submit("other", gate, rows(3, 4))
    assert full.result(30)["y"].tolist() == [30, 40]
    assert not waiting.done()
    batcher.close()
    assert waiting.result(0)["y"].tolist() == [10]


def test_too_many_waiting_rows_are_rejected(gate):
    batcher, first = blocked_batcher(gate, max_batch_size=2, max_enqueued_batches=2)
    waiting = [batcher.submit("key", gate, rows(n)) for n in range(1, 5)]
    with pytest.raises(ServingError, match="Too many requests") as raised:
        batcher.submit("key", gate, rows(5))
    assert raised.value.code.name == "UNAVAILABLE"
    gate.open.set()
    for future in [first, *waiting]:
        future.result(30)
    assert batcher.submit("key", gate, rows(5)).result(30)["y"].tolist() == [50]
    batcher.close()


def test_full_batch_does_not_wait_for_timeout():
    gate = Gate()
    gate.open.set()
    batcher = batcher_of(max_batch_size=2, batch_timeout_micros=3_600_000_000)
    futures = [batcher.submit("key", gate, rows(n)) for n in (1, 2)]
    assert [f.result(30)["y"].tolist() for f in futures] == [[10], [20]]
    assert gate.batches == [[1, 2]]
    batcher.close()


def test_close_completes_waiting_requests(gate):
    batcher, first = blocked_batcher(gate, batch_timeout_micros=0)
    waiting = batcher.submit("key", gate, rows(1))
    closing = threading.Thread(target=batcher.close)
    closing.start()
    gate.open.set()
    closing.join(30)
    assert first.result(0)["y"].tolist() == [0]
    assert waiting.result(0)["y"].tolist() == [10]
    with pytest.raises(ServingError, match="shutting down"):
        batcher.submit("key", gate, rows(2))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
