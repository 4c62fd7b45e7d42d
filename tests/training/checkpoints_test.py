"""Tests of checkpoints: retention, damage and averaging."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras import Transformer
from t2t_keras.training.checkpoints import CheckpointStore
from t2t_keras.training.optimizer import Adam
from t2t_keras.training.weight_averaging import average_weights
from t2t_keras.training.weight_files import DamagedCheckpoint, load_arrays, save_arrays

SMALL = {"num_layers": 1, "d_model": 8, "d_ff": 8, "num_heads": 2}


def model_and_optimizer(seed=0):
    model = Transformer(source_vocab_size=9, **SMALL, seed=seed)
    optimizer = Adam(0.1)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def take_step(model, optimizer):
    optimizer.update([tf.ones(v.shape) for v in model.trainable_variables])


def save(store, step, model, optimizer, progress=None, **metrics):
    store.save(step, model.variables, optimizer.variables, progress or {}, metrics)


def restore(store, model, optimizer, report=print):
    step = store.newest_resumable(report)
    if step is None:
        return None
    return store.restore(step, model.variables, optimizer.variables)


def test_restore_returns_saved_weights_optimizer_and_progress(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoints")
    model, optimizer = model_and_optimizer()
    assert restore(store, model, optimizer) is None
    take_step(model, optimizer)
    save(store, 1, model, optimizer, {"epoch": 3})
    other, other_optimizer = model_and_optimizer(seed=1)
    assert restore(store, other, other_optimizer) == {"epoch": 3}
    take_step(model, optimizer)
    take_step(other, other_optimizer)
    for a, b in zip(model.variables, other.variables, strict=True):
        np.testing.assert_array_equal(a, b)
    assert int(other_optimizer.iterations) == 2


def test_only_newest_checkpoints_are_kept_and_no_temporary_files(tmp_path):
    store = CheckpointStore(tmp_path, keep=3)
    model, optimizer = model_and_optimizer()
    for step in (1, 2, 3, 4, 10):
        save(store, step, model, optimizer)
    assert store.steps() == [3, 4, 10]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "state-00000003.npz",
        "state-00000004.npz",
        "state-00000010.npz",
        "weights-00000003.npz",
        "weights-00000004.npz",
        "weights-00000010.npz",
    ]


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_damaged_checkpoint_is_reported(tmp_path, damage):
    path = tmp_path / "x.npz"
    save_arrays(path, {"a": np.arange(1000.0)})
    content = bytearray(path.read_bytes())
    if damage == "truncate":
        content = content[: len(content) // 2]
    elif damage == "flip":
        content[len(content) // 2] ^= 0xFF
    else:
        content = b""
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.npz is damaged"):
        load_arrays(path)
    with pytest.raises(ValueError, match="No such checkpoint"):
        load_arrays(tmp_path / "y.npz")


def test_best_checkpoints_are_kept(tmp_path):
    store = CheckpointStore(tmp_path, keep=1, keep_best=2)
    model, optimizer = model_and_optimizer()
    for step, nll in enumerate((2.0, 1.0, 3.0, 1.0, float("nan"), 4.0), 1):
        save(store, step, model, optimizer, val_nll=nll, val_bleu=nll)
    assert store.steps() == [2, 4, 6]
    assert store.best_steps(5) == [4, 2, 6]
    assert store.best_steps(1, "val_bleu") == [6]
    assert store.best_steps(5, "val_accuracy") == []


@pytest.mark.parametrize("part", ["weights", "state"])
def test_damaged_newest_checkpoint_falls_back_to_previous_one(tmp_path, part):
    store = CheckpointStore(tmp_path)
    model, optimizer = model_and_optimizer()
    for step in (1, 2, 3):
        take_step(model, optimizer)
        save(store, step, model, optimizer, {"step": step})
    path = tmp_path / f"{part}-00000003.npz"
    path.write_bytes(path.read_bytes()[:-100])
    lines = []
    assert restore(store, model, optimizer, lines.append) == {"step": 2}
    assert int(optimizer.iterations) == 2
    assert f"{part}-00000003.npz is damaged" in lines[0]
    # The damaged checkpoint is not mistaken for one of the resumed run.
    assert store.steps() == [1, 2]


def test_any_flipped_bit_is_detected(tmp_path):
    path = tmp_path / "x.npz"
    arrays = {"a": np.arange(5.0), "b": np.array(3)}
    save_arrays(path, arrays)
    content = path.read_bytes()
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 0x55
        path.write_bytes(flipped)
        try:
            found = load_arrays(path)
        except DamagedCheckpoint:
            continue
        # Metadata such as times may change, but not the arrays.
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)


def test_unfinished_files_of_killed_run_are_removed(tmp_path):
    (tmp_path / ".weights-00000007.npz.x1y2").write_bytes(b"half")
    (tmp_path / "mine.txt").write_text("stays")
    CheckpointStore(tmp_path).remove_unfinished_files()
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_error_for_checkpoint_of_another_model_names_first_difference(tmp_path):
    store = CheckpointStore(tmp_path)
    save(store, 1, *model_and_optimizer())
    larger = Transformer(source_vocab_size=9, **{**SMALL, "d_ff": 16})
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build(larger.trainable_variables)
    with pytest.raises(
        ValueError, match=r"inner/kernel.*\(16, 8\).*has shape \(8, 8\)"
    ):
        restore(store, larger, optimizer)


def test_average_is_mean_of_each_array(tmp_path):
    for i, value in enumerate((1.0, 2.0, 6.0)):
        arrays = {"w": np.full(3, value, np.float32), "calls": np.array(i, np.int32)}
        save_arrays(tmp_path / f"{i}.npz", arrays)
    average = average_weights([tmp_path / f"{i}.npz" for i in range(3)])
    np.testing.assert_array_equal(average["w"], [3, 3, 3])
    assert average["w"].dtype == np.float32
    assert average["calls"] == 2
    assert average["calls"].dtype == np.int32
    save_arrays(tmp_path / "other.npz", {"w": np.zeros(4, np.float32)})
    with pytest.raises(ValueError, match="different models"):
        average_weights([tmp_path / "0.npz", tmp_path / "other.npz"])
    with pytest.raises(ValueError, match="no checkpoints"):
        average_weights([])


def test_averaging_keeps_dtypes(tmp_path):
    dtypes = ["float16", "float32", "float64", "int8", "uint32", "int64", "bool"]
    for i in range(3):
        arrays = {dtype: np.full(2, i, dtype) for dtype in dtypes}
        save_arrays(tmp_path / f"{i}.npz", {**arrays, "metrics": np.array("{}")})
    average = average_weights([tmp_path / f"{i}.npz" for i in range(3)])
    assert {name: array.dtype.name for name, array in average.items()} == {
        dtype: dtype for dtype in dtypes
    }
    for dtype, array in average.items():
        expected = 1 if dtype.startswith("float") else True if dtype == "bool" else 2
        np.testing.assert_array_equal(array, np.full(2, expected))


def test_fused_update_equals_keras_adam():
    gradients = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    results = []
    for optimizer in (Adam(0.1), keras.optimizers.Adam(0.1, 0.9, 0.98, 1e-9)):
        variable = keras.Variable(np.ones(3, np.float32))
        optimizer.build([variable])
        for gradient in gradients:
            if isinstance(optimizer, Adam):
                optimizer.update([tf.constant(gradient)])
            else:
                optimizer.apply([gradient], [variable])
        results.append(variable.numpy())
    np.testing.assert_allclose(*results, rtol=1e-5)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
