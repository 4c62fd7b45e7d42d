"""Tests of `train`, the library call behind t2t-train."""

import json
import os
import re
import signal
import sys
import threading
from pathlib import Path

import command
import keras
import numpy as np
import pytest

from t2t_keras import train
from t2t_keras.config import PRESETS, Preset
from t2t_keras.model_dir import ModelDir

ROOT = Path(__file__).parents[2]
SMALL = PRESETS["tiny"].replace(
    num_layers=1, d_model=16, d_ff=16, num_heads=2, dropout=0.2, batch_tokens=128
)
RUN = SMALL.replace(
    cooldown=0, bleu_sentences=4, log_format="json", report_seconds=0, train_steps=8
)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    work = tmp_path_factory.mktemp("work")
    command.prepare_words(work, train=200, dev=20)
    return work / "data"


class Lines(list):
    """The reported lines."""

    def losses(self):
        events = [json.loads(line) for line in self]
        return {e["step"]: e["loss"] for e in events if e["event"] == "step"}


def test_readme_example_trains_a_model(data_dir, tmp_path, monkeypatch, capsys):
    (lines,) = re.findall(
        r"```python\n(from t2t_keras import train\n.*?)```",
        (ROOT / "README.md").read_text(),
        re.DOTALL,
    )
    assert len([line for line in lines.splitlines() if line]) == 5
    (tmp_path / "data").symlink_to(data_dir)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(PRESETS, "tiny", SMALL)
    exec(lines, {})
    assert re.match(r"100 \{'val_loss': .*'val_bleu': ", capsys.readouterr().out)
    assert ModelDir("notebook-model").checkpoints.steps()[-1] == 100
    assert list(Path("notebook-model/logs/train").iterdir())


def test_resumed_call_in_a_thread_matches_uninterrupted_command(data_dir, tmp_path):
    flags = {**RUN.transformer.to_dict(), **RUN.training.to_dict()}
    names = ("num_layers", "d_model", "d_ff", "num_heads", "dropout", "batch_tokens")
    names += ("bleu_sentences", "log_format", "report_seconds", "train_steps")
    done = command.stage(
        "train",
        *(f"--{name}={flags[name]}" for name in names),
        "--cooldown=0",
        f"--data_dir={data_dir}",
        f"--model_dir={tmp_path}/whole",
    )
    whole = Lines(line for line in done.stderr.splitlines() if line[0] == "{").losses()
    found, lines = [], Lines()

    def call(steps):
        preset = RUN.replace(train_steps=steps)
        found.append(train(preset, data_dir, tmp_path / "model", report=lines.append))

    for steps in (5, 8):
        thread = threading.Thread(target=call, args=[steps])
        thread.start()
        thread.join()
    assert lines.losses() == whole
    assert [result.step for result in found] == [5, 8]
    assert all(result.is_finished for result in found)
    assert {"val_nll", "val_bleu"} <= found[1].metrics.keys()
    # A call with nothing left to train succeeds, too.
    call(8)
    assert found[2] == found[1]
    assert "is already trained: its budget is spent after 8 steps" in lines[-1]


class Interrupts(keras.callbacks.Callback):
    """Sends SIGINT to this process at a step, like the interrupt of a notebook."""

    def __init__(self, step):
        super().__init__()
        self._step = step
        self.epochs = []

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 == self._step:
            os.kill(os.getpid(), signal.SIGINT)

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append((epoch, sorted(logs)))


def test_interrupt_saves_and_returns_and_user_callbacks_are_called(data_dir, tmp_path):
    before = signal.getsignal(signal.SIGINT)
    lines, own = Lines(), Interrupts(step=5)
    preset = RUN.replace(checkpoint_steps=2)
    arguments = (preset, data_dir, tmp_path / "model")
    result = train(*arguments, callbacks=[own], report=lines.append)
    assert (result.step, result.is_finished) == (6, False)
    assert signal.getsignal(signal.SIGINT) is before
    assert [epoch for epoch, _ in own.epochs] == [0, 1, 2]
    assert "val_nll" in own.epochs[0][1]
    assert "Stopped after step 6" in lines[-1]

    class Stops(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = True

    # stop_training takes effect at the next validation.
    longer = preset.replace(train_steps=100)
    result = train(longer, *arguments[1:], callbacks=[Stops()], report=lines.append)
    assert (result.step, result.is_finished) == (8, True)


def test_init_from_starts_with_the_weights_of_another_model(data_dir, tmp_path):
    lines = Lines()
    for name, init_from in (("one", None), ("two", tmp_path / "one")):
        train(
            RUN.replace(train_steps=1),
            data_dir,
            tmp_path / name,
            init_from=init_from,
            report=lines.append,
        )
    messages = [json.loads(line).get("text", "") for line in lines]
    assert f"Initialized with the weights of {tmp_path}/one." in messages
    assert "preset custom" in messages[0]


def test_untied_output_matrix_starts_as_the_shared_matrix_of_a_tied_model(
    data_dir, tmp_path
):
    run = RUN.replace(train_steps=1, bleu_sentences=0, share_embeddings=False)
    lines, forms = Lines(), ({}, {"tie_output": False})
    for name, init_from, form in zip(
        ("one", "two"), (None, tmp_path / "one"), forms, strict=True
    ):
        train(
            run.replace(**form, logits_bias=True, learning_rate=0.0),
            data_dir,
            tmp_path / name,
            init_from=init_from,
            report=lines.append,
        )
    messages = [json.loads(line).get("text", "") for line in lines]
    assert f"Initialized with the weights of {tmp_path}/one." in messages
    assert f"{tmp_path}/one has other values: tie_output=True." in messages
    one, two = (ModelDir(tmp_path / name).load_model() for name in ("one", "two"))
    ids = {name: np.array([[5, 6, 7, 2]]) for name in ("source", "target")}
    np.testing.assert_array_equal(one(ids), two(ids))


def test_invalid_arguments_are_rejected_before_anything_is_written(data_dir, tmp_path):
    with pytest.raises(
        ValueError, match=r"preset must be one of .*tiny.* Received: 'tini'"
    ):
        train("tini", data_dir, tmp_path / "model")
    with pytest.raises(ValueError, match="must not be the data directory"):
        train(Preset(), data_dir, data_dir)
    assert not (tmp_path / "model").exists()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
