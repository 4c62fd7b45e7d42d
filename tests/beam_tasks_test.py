"""Tests of running tasks on Apache Beam, with its runner for one machine."""

import json
import os
import random
import signal
import sys

import pytest

from t2t_keras.beam_tasks import BeamTaskRunner
from t2t_keras.data import preparation
from t2t_keras.data.cleaning_options import CleaningOptions
from t2t_keras.data.corpora import TextCorpus
from t2t_keras.data.preparation import prepare
from t2t_keras.errors import UserError
from t2t_keras.tasks import LocalTaskRunner

TWO_WORKERS = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")


def square(number):
    return number * number


def fail(number):
    if number % 2:
        raise UserError(f"line {number} is bad")


def kill_first_worker(task):
    """Kills its process the first time, in the middle of writing a file."""
    directory, number = task
    killed = f"{directory}/killed"
    if not os.path.exists(killed):
        open(killed, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def kill_worker(number):
    os.kill(os.getpid(), signal.SIGKILL)


def run(function, tasks, directory, arguments=()):
    runner = BeamTaskRunner(arguments=arguments)
    return [*runner.run("test", function, tasks, directory)]


def test_results_have_the_order_of_the_tasks(tmp_path):
    expected = [i * i for i in range(9)]
    assert run(square, range(9), tmp_path) == expected
    assert run(square, [], tmp_path) == []
    assert not list(tmp_path.iterdir())


def test_user_errors_of_workers_are_raised_unchanged(tmp_path):
    with pytest.raises(UserError, match=r"^line 1 is bad$"):
        run(fail, range(4), tmp_path)


@pytest.mark.faults
def test_tasks_of_a_killed_worker_are_repeated(tmp_path):
    tasks = [(str(tmp_path), number) for number in range(6)]
    assert run(kill_first_worker, tasks, tmp_path, TWO_WORKERS) == [*range(6)]
    assert (tmp_path / "killed").exists()


@pytest.mark.faults
def test_workers_that_are_always_killed_end_the_run(tmp_path):
    with pytest.raises(RuntimeError, match="worker processes of Beam were lost 3"):
        run(kill_worker, [1, 2], tmp_path, TWO_WORKERS)


@pytest.mark.parametrize(
    ("runner", "arguments", "message"),
    [
        ("Nope", (), "Unexpected pipeline runner: Nope"),
        ("FnApiRunner", ("--nonsense=3",), "Beam has no options nonsense"),
        ("FnApiRunner", ("--direct_num_workers=x",), "invalid int value: 'x'"),
    ],
)
def test_invalid_options_are_named(runner, arguments, message):
    with pytest.raises(UserError, match=message):
        BeamTaskRunner(runner, arguments)


def test_prepared_directory_is_the_same_on_every_runner(tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "_PAIRS_PER_BLOCK", 100)
    rng = random.Random(0)
    words = ["a", "b c", "d e f", "g.", "h", "i j", "Kl"]
    pairs = [
        (" ".join(rng.choices(words, k=3)), " ".join(rng.choices(words, k=3)) + " x")
        for _ in range(350)
    ]
    dev = pairs[:5]
    paths = {}
    for name, text in (("train", pairs + pairs[20:60]), ("dev", dev)):
        for side, lines in zip("st", zip(*text, strict=True), strict=True):
            path = tmp_path / f"{name}.{side}"
            path.write_text("".join(f"{line}\n" for line in lines))
            paths.setdefault(side, {})[name] = [str(path)]
    runners = {
        "alone": LocalTaskRunner(),
        "beam": BeamTaskRunner(),
        "workers": BeamTaskRunner(arguments=TWO_WORKERS),
    }
    for name, runner in runners.items():
        prepare(
            TextCorpus("en", "de", paths["s"], paths["t"]),
            tmp_path / name,
            vocab_size=40,
            cleaning=CleaningOptions(["basic"]),
            runner=runner,
            report=lambda message: None,
        )
    alone = tmp_path / "alone"
    manifest = json.loads((alone / "manifest.json").read_text())
    removed = manifest["filters"]["report"]["removed"]
    assert removed["held_out"] > 0
    assert removed["duplicate_pair"] > 0
    files = sorted(path.relative_to(alone) for path in alone.rglob("*.*"))
    assert len([file for file in files if file.suffix == ".tfrecord"]) == 5
    for name in ("beam", "workers"):
        other = tmp_path / name
        assert files == sorted(path.relative_to(other) for path in other.rglob("*.*"))
        for file in files:
            assert (other / file).read_bytes() == (alone / file).read_bytes(), file


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
