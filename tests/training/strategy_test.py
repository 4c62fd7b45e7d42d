"""Tests that replicas, workers and gradient accumulation do not change results."""

import json
import subprocess
import sys
import tempfile

import command
import numpy as np
import pytest
import tensorflow as tf
import worker
from toy import run, trainer_of

from t2t_keras.data.batch_order import BatchOrder
from t2t_keras.data.batching import Batching
from t2t_keras.runtime import usable_cores
from t2t_keras.training.strategy import has_undetected_gpu, make_strategy, worker_index


def train(*runs):
    """Runs tests/worker.py in several cooperating processes.

    Returns:
        For each process, the logs with the metrics of held-out data, and the weights.
    """
    with tempfile.TemporaryDirectory() as directory:
        processes = [
            subprocess.Popen(
                [
                    sys.executable,
                    worker.__file__,
                    json.dumps({"path": f"{directory}/{i}.npz", **arguments}),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for i, arguments in enumerate(runs)
        ]
        results = []
        for i, process in enumerate(processes):
            output, errors = process.communicate(timeout=command.PATIENCE)
            assert process.returncode == 0, errors.decode()
            with np.load(f"{directory}/{i}.npz") as arrays:
                weights = [arrays[name] for name in arrays.files]
            results.append((json.loads(output), weights))
        return results


@pytest.fixture(scope="module")
def alone():
    return train({})[0]


def assert_same(one, other, atol=1e-9):
    for a, b in zip(one[0]["logs"], other[0]["logs"], strict=True):
        assert a["loss"] == pytest.approx(b["loss"], abs=atol)
        # The schedule, the order of the data and the token counts are equal.
        for name in ("learning_rate", "tokens"):
            assert a[name] == b[name]
    for name in ("nll", "loss", "accuracy", "tokens"):
        assert one[0]["dev"][name] == pytest.approx(other[0]["dev"][name], abs=atol)
    for a, b in zip(one[1], other[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)


@pytest.mark.parametrize(("devices", "accumulate"), [(8, 1), (2, 2), (1, 4), (1, 8)])
def test_replicas_and_accumulation_do_not_change_results(alone, devices, accumulate):
    (result,) = train({"devices": devices, "accumulate": accumulate})
    assert_same(alone, result)
    # The steps extend into the second epoch.
    order = BatchOrder(worker.BATCHING, worker.EXAMPLES.lengths)
    assert order.size(0) < worker.STEPS
    # 0 lets TensorFlow choose, if there are fewer replicas than cores.
    assert result[0]["threads"] == (1 if 1 < devices >= usable_cores() else 0)


@pytest.mark.parametrize("number", [2, pytest.param(4, marks=pytest.mark.long)])
def test_workers_do_not_change_results(alone, number):
    workers = [f"127.0.0.1:{port}" for port in command.free_ports(number)]
    for result in train(
        *({"workers": workers, "worker_index": index} for index in range(number))
    ):
        assert_same(alone, result)


@pytest.mark.long
def test_float32_results_differ_only_by_rounding(capsys):
    workers = [f"127.0.0.1:{port}" for port in command.free_ports(2)]
    one, mirrored, worker, _ = train(
        {"dtype": "float32"},
        {"dtype": "float32", "devices": 8},
        *({"dtype": "float32", "workers": workers, "worker_index": i} for i in (0, 1)),
    )
    for other in (mirrored, worker):
        for a, b in zip(one[0]["logs"], other[0]["logs"], strict=True):
            assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)
    pairs = zip(one[1], mirrored[1], strict=True)
    largest = max(np.abs(a - b).max() for a, b in pairs)
    with capsys.disabled():
        print(f" [float32, 8 replicas, 20 steps: weights within {largest:.1e}]")
    # Adam amplifies rounding: it divides by the root of tiny second moments.
    assert largest < 1e-2


# At most two replicas in this process, whose number of logical devices is fixed.


def test_each_replica_draws_its_own_dropout_masks():
    strategy = make_strategy("mirrored", 2)
    trainer = trainer_of(strategy=strategy, dropout=0.5)
    layer = trainer.model.source_dropout
    masks = strategy.run(lambda: layer(tf.ones([1, 4, 64]), training=True))
    first, second = (x.numpy() for x in strategy.experimental_local_results(masks))
    assert (first != second).mean() > 0.3
    # The next call draws other masks.
    masks = strategy.run(lambda: layer(tf.ones([1, 4, 64]), training=True))
    third, _ = (x.numpy() for x in strategy.experimental_local_results(masks))
    assert (first != third).mean() > 0.3


@pytest.mark.parametrize(
    ("precision", "jit"),
    [
        ("mixed_bfloat16", False),
        pytest.param("mixed_float16", True, marks=pytest.mark.long),
        pytest.param("float32", True, marks=pytest.mark.long),
    ],
)
def test_precisions_and_xla_work_on_replicas(precision, jit):
    trainer = trainer_of(
        precision, 0.1, make_strategy("mirrored", 2), jit=jit, accumulate=2
    )
    logs = run(trainer, 12, batching=Batching(64, pad_to_boundary=jit))
    assert not any(entry["skipped"] for entry in logs)
    assert logs[-1]["loss"] < logs[0]["loss"]


@pytest.mark.parametrize(
    ("dtype", "jit"),
    [
        ("mixed_bfloat16", False),
        pytest.param("mixed_float16", True, marks=pytest.mark.long),
    ],
)
def test_precisions_and_xla_work_on_workers(dtype, jit):
    workers = [f"127.0.0.1:{port}" for port in command.free_ports(2)]
    arguments = {"dtype": dtype, "jit": jit, "dropout": 0.1, "workers": workers}
    first, second = train(*({**arguments, "worker_index": i} for i in (0, 1)))
    logs = first[0]["logs"]
    assert not any(entry["skipped"] for entry in logs)
    assert logs[-1]["loss"] < logs[0]["loss"]
    # Workers draw different masks, but their weights stay equal.
    for a, b in zip(first[1], second[1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_auto_strategy_matches_devices_and_workers():
    assert make_strategy().num_replicas_in_sync == 1
    assert make_strategy(devices=2).num_replicas_in_sync == 2
    assert worker_index(make_strategy()) == 0
    assert worker_index(make_strategy("mirrored", 2)) == 0


def test_gpu_invisible_to_tensorflow_is_detected(tmp_path, monkeypatch):
    # A file replaces the device file of a GPU.
    driver = tmp_path / "nvidia0"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert not has_undetected_gpu(str(driver))
    driver.touch()
    assert has_undetected_gpu(str(driver)) == (
        not tf.config.list_physical_devices("GPU")
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not has_undetected_gpu(str(driver))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "many"}, "Received: 'many'"),
        ({"devices": -1}, "Received: -1"),
        ({"strategy": "one", "devices": 2}, "must be 0 or 1 with strategy=one"),
        ({"strategy": "multi_worker"}, "needs the addresses of the workers"),
        ({"workers": ["a:1", "b:2"], "worker_index": 2}, "Received: 2"),
        ({"workers": ["a"]}, "A worker must be host:port. Received: 'a'"),
        ({"workers": ["a:1", "a:1"]}, "must not repeat"),
        ({"workers": ["a:1", "b:2"], "strategy": "mirrored"}, "multi_worker or auto"),
        ({"workers": ["a:1", "b:2"], "devices": 2}, "start more workers"),
    ],
)
def test_invalid_arguments_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_strategy(**arguments)


@pytest.mark.parametrize(
    "text", ["x", "{}", '{"cluster": {"ps": []}, "task": {"type": "ps", "index": 0}}']
)
def test_invalid_tf_config_is_shown(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="TF_CONFIG must look like"):
        make_strategy()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
