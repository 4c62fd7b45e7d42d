"""Tests of t2t-train as a process: signals, resumption, replicas and workers."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios

import command
import pytest

from t2t_keras.training.checkpoints import CheckpointStore

SIZES = ["--num_layers=1", "--d_model=16", "--d_ff=16", "--num_heads=2"]
RUN = [
    *SIZES,
    "--batch_tokens=128",
    "--dropout=0.2",
    # A cooldown would make runs with different budgets differ.
    "--cooldown=0",
    "--bleu_sentences=4",
    "--log_format=json",
    "--report_seconds=0",
]
ENDLESS = ["--train_steps=1000000"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Prepared data."""
    work = tmp_path_factory.mktemp("work")
    command.prepare_words(work, train=200, dev=20)
    return work


def directories(work, model):
    return [f"--data_dir={work}/data", f"--model_dir={work}/{model}"]


def train(work, model, *arguments):
    done = command.stage("train", *directories(work, model), *RUN, *arguments)
    return events(done.stderr)


def events(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def losses(found):
    return {e["step"]: e["loss"] for e in found if e["event"] == "step"}


def start(stage, *arguments):
    """Starts a training. Returns the process and its messages after five steps."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"t2t_keras.pipelines.{stage}", *arguments],
        stderr=subprocess.PIPE,
        text=True,
    )
    log = ""
    for line in process.stderr:
        log += line
        if '"step": 5,' in line:
            return process, log
    raise AssertionError(log)


def finish(process, log, status):
    # Not communicate(), which loses the lines that `start` has already buffered.
    log += process.stderr.read()
    assert process.wait() == status, log
    assert "Traceback" not in log
    return log


@pytest.mark.parametrize(
    ("number", "interval"), [(signal.SIGTERM, 1_000_000), (signal.SIGINT, 1)]
)
def test_training_saves_on_signal_and_same_command_resumes(work, number, interval):
    name = f"stopped_{number}"
    arguments = [*directories(work, name), *RUN, *ENDLESS]
    arguments += [f"--checkpoint_steps={interval}"]
    process, log = start("train", *arguments)
    rejected = command.stage("train", *arguments, status=2)
    assert "Another training is running" in rejected.stderr
    process.send_signal(number)
    log = finish(process, log, 75)
    before = losses(events(log))
    last = max(before)
    assert f"Stopped after step {last:,}" in log
    # A checkpoint saved at a validation step keeps the dev figures.
    figures = CheckpointStore(work / name / "checkpoints").metrics(last)
    assert ("val_bleu" in figures) == (interval == 1)
    after = losses(train(work, name, f"--train_steps={last + 5}"))
    uninterrupted = losses(train(work, f"{name}_whole", f"--train_steps={last + 5}"))
    assert before | after == uninterrupted
    assert min(after) == last + 1


def test_launched_workers_stop_and_resume_together(work):
    arguments = ["--num_workers=2", "--", *directories(work, "workers"), *RUN]
    arguments += [*ENDLESS, "--learning_rate=0"]
    process, log = start("launch", *arguments)
    process.send_signal(signal.SIGTERM)
    log = finish(process, log, 75)
    assert "replicas 2" in log
    last = max(losses(events(log)))
    arguments += ["--checkpoint_steps=1", "--early_stop_patience=2"]
    done = command.stage("launch", *arguments)
    assert f"Resuming after step {last:,}" in done.stderr
    # The first validation is the best one, since nothing is learned.
    assert f"Trained {last + 3:,} steps" in done.stderr


def test_lost_worker_stops_the_others_with_a_message(work):
    workers = ",".join(f"127.0.0.1:{port}" for port in command.free_ports(2))
    ours = [*directories(work, "lost"), *RUN, *ENDLESS, f"--workers={workers}"]
    other = subprocess.Popen(
        [sys.executable, "-m", "t2t_keras.pipelines.train", *ours, "--worker_index=1"],
        stderr=subprocess.DEVNULL,
    )
    process, log = start("train", *ours)
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    log = finish(process, log, 1)
    assert "error: ConnectionError: Another worker was lost" in log


def test_workers_need_equal_flags_and_a_shared_model_directory(work, tmp_path):
    def run_both(first_flags, second_flags):
        workers = ",".join(f"127.0.0.1:{port}" for port in command.free_ports(2))
        line = [sys.executable, "-m", "t2t_keras.pipelines.train"]
        line += [f"--data_dir={work}/data", *RUN, f"--workers={workers}"]
        processes = [
            subprocess.Popen(
                [*line, f"--worker_index={i}", *more], stderr=subprocess.PIPE, text=True
            )
            for i, more in enumerate((first_flags, second_flags))
        ]
        logs = [
            process.communicate(timeout=command.PATIENCE)[1] for process in processes
        ]
        return [process.returncode for process in processes], logs

    ours, theirs = (f"--model_dir={tmp_path}/{name}" for name in ("ours", "theirs"))
    codes, logs = run_both([ours, "--learning_rate=2"], [ours, "--learning_rate=3"])
    assert 0 not in codes
    assert "started with different flags" in logs[0] + logs[1]
    train(work, "alone", "--train_steps=2")
    alone = f"--model_dir={work}/alone"
    codes, logs = run_both([alone, "--train_steps=4"], [theirs, "--train_steps=4"])
    assert 0 not in codes
    assert "No such checkpoint" in logs[1]


def test_early_stopping_is_remembered_when_training_resumes(work):
    def last_message(patience, steps=1000):
        arguments = ["--learning_rate=0", "--checkpoint_steps=2"]
        arguments += [f"--train_steps={steps}", f"--early_stop_patience={patience}"]
        return train(work, "stopped_early", *arguments)[-1]["text"]

    # The extra validation at the end of the budget does not count.
    assert last_message(1, steps=3).startswith("Trained 3 steps")
    # The second process validates for the first time after step 4.
    assert last_message(1).startswith("Trained 4 steps")
    again = last_message(1)
    assert (
        "early stopping ended it after 4 steps, because val_nll was not better" in again
    )
    assert "increase or unset --early_stop_patience" in again
    assert last_message(2).startswith("Trained 6 steps")


def test_damaged_checkpoints_are_not_overwritten(work):
    train(work, "damaged", "--train_steps=2", "--checkpoint_steps=1")
    for path in (work / "damaged" / "checkpoints").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    config = (work / "damaged" / "config.json").read_bytes()
    line = [*directories(work, "damaged"), *RUN, "--train_steps=4"]
    first, second = (command.stage("train", *line, status=2).stderr for _ in range(2))
    message = f"error: All checkpoints in {work}/damaged/checkpoints are damaged"
    assert first.splitlines()[-1].startswith(message)
    assert first.splitlines()[-1] == second.splitlines()[-1]
    assert f"To start over here, remove {work}/damaged/checkpoints." in first
    assert (work / "damaged" / "config.json").read_bytes() == config


def test_repeated_non_finite_gradients_stop_training_and_save_the_batch(work):
    failed = command.stage(
        "train",
        *directories(work, "infinite"),
        *RUN,
        "--learning_rate=1e30",
        "--warmup_steps=1",
        "--max_skipped_steps=2",
        "--train_steps=100",
        status=1,
    )
    assert "3 consecutive steps had non-finite gradients" in failed.stderr
    (batch_file,) = (work / "infinite").glob("skipped-epoch-*-batch-*.tsv")
    assert str(batch_file) in failed.stderr
    training_pairs = set((work / "train.tsv").read_text().splitlines())
    assert set(batch_file.read_text().splitlines()) <= training_pairs


def test_init_from_starts_with_the_weights_of_another_run(work):
    values = ["--ema_decay=0.5", "--learning_rate=3"]
    train(work, "first", "--train_steps=40", *values)
    assert (work / "first" / "ema.npz").is_file()
    # Works even if that run has lost its training state and cannot resume.
    (state,) = (work / "first" / "checkpoints").glob("state-*")
    state.unlink()
    line = [*directories(work, "first"), *RUN, "--train_steps=50", *values]
    rejected = command.stage("train", *line, status=2).stderr
    assert "no state (state-*.npz) that belongs to them" in rejected
    assert f"pass --init_from={work}/first and another --model_dir" in rejected
    assert CheckpointStore(work / "first" / "checkpoints").steps() == [40]
    found = train(work, "second", "--train_steps=1", f"--init_from={work}/first")
    assert f"Initialized with the weights of {work}/first." in [
        e.get("text") for e in found
    ]
    fresh = losses(train(work, "fresh", "--train_steps=1"))
    assert losses(found)[1] < 0.9 * fresh[1]


def test_init_from_uses_the_configuration_of_the_model(work):
    run = ["--bleu_sentences=0", "--log_format=json", "--report_seconds=0"]
    sizes = ["--num_layers=1", "--d_model=16", "--d_ff=16", "--num_heads=2"]
    other = ["--logits_bias", "--position=sinusoidal_marian", "--warmup_steps=7"]
    line = [*directories(work, "pretrained"), *run, *sizes, *other, "--preset=multi30k"]
    command.stage("train", *line, "--train_steps=2")
    line = [*directories(work, "tuned"), f"--init_from={work}/pretrained", *run]
    line.append("--dropout=0.4")
    first = events(command.stage("train", *line, "--train_steps=1").stderr)
    assert not any("has other values" in e.get("text", "") for e in first)
    # The other directory is not needed to resume.
    (work / "pretrained").rename(work / "moved")
    command.stage("train", *line, "--train_steps=2")
    config = json.loads((work / "tuned" / "config.json").read_text())
    expected = json.loads((work / "moved" / "config.json").read_text())["model"]
    assert config["model"] == {**expected, "dropout": 0.4}
    assert config["training"]["warmup_steps"] == 7
    assert CheckpointStore(work / "tuned" / "checkpoints").steps() == [1, 2]
    # A preset that is given replaces it.
    (work / "moved").rename(work / "pretrained")
    line = [*directories(work, "small"), f"--init_from={work}/pretrained", *run]
    line += ["--preset=tiny", *sizes, "--train_steps=1"]
    overridden = events(command.stage("train", *line).stderr)
    assert any("position=sinusoidal_marian" in e.get("text", "") for e in overridden)


def test_token_epoch_and_time_budgets_stop_training(work):
    tokens = train(work, "tokens", "--train_tokens=500")
    assert 1 < max(losses(tokens)) < 6
    # A quarter of the batches of an epoch, whose number the first message gives.
    epochs = train(work, "epochs", "--train_epochs=0.25")
    batches = int(re.search(r"batches per epoch (\d+)", epochs[0]["text"])[1])
    assert max(losses(epochs)) == -(-batches // 4)
    assert "total FLOPs" in epochs[0]["text"]
    minutes = train(work, "minutes", "--train_minutes=0.02")
    assert minutes[-1]["text"].startswith("Trained ")


def test_terminal_shows_a_progress_bar(work):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 160))
    arguments = [*directories(work, "bar"), *SIZES]
    arguments += ["--batch_tokens=128", "--train_steps=2000", "--bleu_sentences=0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "t2t_keras.pipelines.train", *arguments],
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # The process has closed the terminal.
        while some := os.read(ours, 4096):
            shown += some
    os.close(ours)
    assert process.wait() == 0, shown
    text = shown.decode()
    bars = re.findall(r"\r +\d+% \|[^|]*\| step \d+ .* tokens/s +\d+:\d\d left", text)
    assert bars, text
    assert "dev: accuracy" in text
    assert "Trained 2,000 steps" in text


def test_average_follow_tracks_a_running_training(work):
    model = f"--model_dir={work}/followed"
    average = [sys.executable, "-m", "t2t_keras.pipelines.average"]
    arguments = [*directories(work, "followed"), *RUN, "--checkpoint_steps=10"]
    process, log = start("train", *arguments, "--train_steps=100000")
    follower = subprocess.Popen(
        [*average, model, "--last=2", "--follow"],
        stderr=subprocess.PIPE,
        text=True,
    )
    first = follower.stderr.readline()
    assert (
        "Averaged the checkpoints" in first
        or "Fewer checkpoints than requested" in first
    )
    process.send_signal(signal.SIGTERM)
    finish(process, log, 75)
    rest = first + follower.communicate(timeout=command.PATIENCE)[1]
    assert follower.returncode == 0, rest
    last = max(
        int(path.stem.split("-")[1])
        for path in (work / "followed" / "checkpoints").glob("weights-*.npz")
    )
    averaged = [line for line in rest.splitlines() if line.startswith("Averaged")]
    newest = re.search(r"([\d,]+)( \(dev nll [\d.]+\))?\. Wrote ", averaged[-1])
    assert newest[1] == f"{last:,}", rest


def test_training_on_two_replicas_with_a_profile(work):
    found = train(work, "two", "--devices=2", "--train_steps=6", "--profile_steps=3,4")
    assert "strategy MirroredStrategy, replicas 2" in found[0]["text"]
    assert list((work / "two" / "logs").glob("plugins/profile/*/*.xplane.pb"))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
