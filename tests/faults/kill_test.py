"""Training survives kills, damaged files and full disks without losing progress.

Takes minutes, so it is not part of the default suite: `make test-faults`.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import command
import numpy as np
import pytest

pytestmark = pytest.mark.faults

STEPS = 120
KILLS = {"one": 8, "mirrored": 6, "workers": 6}
RUN = [
    "--num_layers=1",
    "--d_model=16",
    "--d_ff=16",
    "--num_heads=2",
    "--batch_tokens=128",
    "--dropout=0.2",
    "--ema_decay=0.9",
    "--bleu_sentences=4",
    "--log_format=json",
    "--report_seconds=0",
    f"--train_steps={STEPS}",
    "--checkpoint_steps=7",
]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Prepared data."""
    work = tmp_path_factory.mktemp("work")
    command.prepare_words(work, train=300, dev=20)
    return work


def command_line(kind, work, model):
    arguments = [f"--data_dir={work}/data", f"--model_dir={model}", *RUN]
    stage, before = "train", []
    if kind == "mirrored":
        arguments.append("--devices=2")
    if kind == "workers":
        stage, before = "launch", ["--num_workers=2", "--"]
    return [
        sys.executable, "-m", f"t2t_keras.pipelines.{stage}", *before, *arguments
    ]  # fmt: skip


def run(line, losses, stop_after=None, rng=None):
    """Runs a command, records each step's loss, and kills it after some steps.

    The loss of a repeated step must not change.

    Returns:
        Whether the command succeeded, and its standard error.
    """
    process = subprocess.Popen(
        line, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    stderr, steps, killed = "", 0, False
    for text in process.stderr:
        stderr += text
        if not text.startswith("{") or killed:
            continue
        event = json.loads(text)
        if event["event"] != "step":
            continue
        step, loss = event["step"], event["loss"]
        assert losses.setdefault(step, loss) == loss, f"step {step}: {stderr}"
        steps += 1
        if steps == stop_after:
            killed = True
            victims = [process.pid, *children(process.pid)]
            for victim in [rng.choice(victims[1:] or victims), *victims]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
    process.wait()
    assert "Traceback" not in stderr, stderr
    return process.returncode == 0, stderr


def children(pid):
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed]


def final_weights(model):
    with np.load(model / "checkpoints" / f"weights-{STEPS:08d}.npz") as arrays:
        weights = {n: arrays[n] for n in arrays.files if n != "metrics"}
    with np.load(model / "ema.npz") as arrays:
        return weights | {f"ema/{n}": arrays[n] for n in arrays.files}


def same_weights(model, other):
    one, two = final_weights(model), final_weights(other)
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, two[name], err_msg=name)


@pytest.fixture(scope="module")
def uninterrupted(work):
    """Losses of uninterrupted runs by kind."""
    found = {}
    for kind in KILLS:
        found[kind] = {}
        succeeded, stderr = run(
            command_line(kind, work, work / f"{kind}_whole"), found[kind]
        )
        assert succeeded, stderr
        assert len(found[kind]) == STEPS
    return found


@pytest.mark.parametrize("kind", KILLS)
def test_resume_after_kill_matches_uninterrupted_run(work, uninterrupted, kind, capsys):
    rng, losses = random.Random(kind), {}
    model = work / f"{kind}_killed"
    kills = 0
    while kills < KILLS[kind]:
        # A killed run resumes from its last checkpoint and repeats some steps.
        after = rng.randint(1, max(2, STEPS // KILLS[kind]))
        succeeded, _ = run(command_line(kind, work, model), losses, after, rng)
        assert not succeeded, "It ended before it was killed."
        kills += 1
    succeeded, stderr = run(command_line(kind, work, model), losses)
    assert succeeded, stderr
    assert losses == uninterrupted[kind]
    same_weights(model, work / f"{kind}_whole")
    assert not [p.name for p in model.rglob(".*")], "Half-written files are left."
    with capsys.disabled():
        print(f" [{kind}: {kills} kills, {len(losses)} equal losses]")


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "remove"])
def test_resume_after_damaged_checkpoint_matches_uninterrupted_run(
    work, uninterrupted, damage
):
    rng, losses = random.Random(damage), {}
    model = work / f"damaged_{damage}"
    line = command_line("one", work, model)
    for after in (30, 25):
        run(line, losses, after, rng)
        newest = sorted((model / "checkpoints").glob("*-*.npz"), key=str)
        step = max(path.stem.split("-")[1] for path in newest)
        path = model / "checkpoints" / f"{rng.choice(['weights', 'state'])}-{step}.npz"
        content = bytearray(path.read_bytes())
        if damage == "remove":
            path.unlink()
        elif damage == "flip":
            content[rng.randrange(len(content) // 4, len(content) // 2)] ^= 0xFF
            path.write_bytes(content)
        else:
            remaining = len(content) // 3 if damage == "truncate" else 0
            path.write_bytes(content[:remaining])
    succeeded, stderr = run(line, losses)
    assert succeeded, stderr
    if damage in ("truncate", "empty"):
        assert "is damaged" in stderr
    assert losses == uninterrupted["one"]
    same_weights(model, work / "one_whole")


@contextlib.contextmanager
def mounted(directory, options):
    directory.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no permission to mount: {done.stderr}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_full_disk_is_reported_and_keeps_checkpoints(work, tmp_path):
    with mounted(tmp_path / "small", "size=600k") as disk:
        model = disk / "model"
        succeeded, stderr = run(command_line("one", work, model), {})
        assert not succeeded
        assert "No space left on device" in stderr
        assert not list(model.rglob(".*.npz.*"))
        # Earlier checkpoints are intact.
        steps = sorted((model / "checkpoints").glob("weights-*.npz"))
        for path in steps:
            with np.load(path) as arrays:
                assert len([arrays[n] for n in arrays.files]) > 10
        assert steps
    with mounted(tmp_path / "tiny", "size=100k") as disk:
        succeeded, stderr = run(command_line("one", work, disk / "model"), {})
        assert not succeeded
        assert "A checkpoint takes" in stderr or "No space left" in stderr


def test_read_only_directory_is_reported_before_training(work, tmp_path):
    with mounted(tmp_path / "locked", "ro") as disk:
        succeeded, stderr = run(command_line("one", work, disk / "model"), {})
        assert not succeeded
        assert "cannot be written to" in stderr
        assert '"event": "step"' not in stderr


def test_hanging_worker_ends_the_job(work, capsys):
    workers = ",".join(f"127.0.0.1:{port}" for port in command.free_ports(2))
    line = [*command_line("one", work, work / "hanging"), f"--workers={workers}"]
    line += ["--train_steps=1000000"]
    other = subprocess.Popen([*line, "--worker_index=1"], stderr=subprocess.DEVNULL)
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
    for text in process.stderr:
        if '"step": 5,' in text:
            break
    other.send_signal(signal.SIGSTOP)
    started = time.monotonic()
    stderr = process.communicate(timeout=60)[1]
    other.kill()
    other.wait()
    assert process.returncode == 1
    assert "Another worker was lost" in stderr
    with capsys.disabled():
        print(f" [ended after {time.monotonic() - started:.0f} s]")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-m", "faults"]))
