"""Tests of the choice of a checkpoint after kills, lost files and damage."""

import errno
import itertools
import os
import sys
from pathlib import Path

import keras
import pytest

from t2t_keras.training.checkpoints import CheckpointStore
from t2t_keras.training.weight_files import load_arrays


class Run:
    """A training whose weights and state are one number, the step.

    Args:
        directory: Directory of the checkpoints.
        offset: Number added to the weights, to distinguish runs.
        **arguments: Arguments of `CheckpointStore`.
    """

    def __init__(self, directory, offset=0.0, **arguments):
        self.store = CheckpointStore(directory, **arguments)
        self.offset = offset
        self.weights = [keras.Variable(0.0, name="weights")]
        self.state = [keras.Variable(0.0, name="state")]

    def save(self, step, **metrics):
        self.weights[0].assign(step + self.offset)
        self.state[0].assign(step)
        self.store.save(step, self.weights, self.state, {"step": step}, metrics)

    def resume(self):
        """Resumes like a new process. Returns the step and the reported lines."""
        lines = []
        self.store.remove_unfinished_files()
        step = self.store.newest_resumable(lines.append)
        if step is not None:
            progress = self.store.restore(step, self.weights, self.state)
            assert progress == {"step": step}
            assert float(self.weights[0].value) == step + self.offset
            assert float(self.state[0].value) == step
        return step, lines


def files(directory):
    return sorted(path.name for path in directory.iterdir())


def damage(*paths):
    for path in paths:
        path.write_bytes(path.read_bytes()[:-30])


def assert_refused(run, message):
    """Asserts that resuming fails repeatedly, and returns the message."""
    messages = []
    for _ in range(3):
        with pytest.raises(ValueError, match=message) as raised:
            run.resume()
        messages.append(str(raised.value))
    assert messages[0] == messages[1] == messages[2]
    assert f"To start over here, remove {run.store.directory}." in messages[0]
    return messages[0]


@pytest.mark.parametrize("parts", [["weights"], ["state"], ["weights", "state"]])
def test_resume_is_refused_while_all_checkpoints_are_damaged(tmp_path, parts):
    run = Run(tmp_path)
    for step in (1, 2):
        run.save(step)
        damage(*(tmp_path / f"{part}-{step:08d}.npz" for part in parts))
    message = assert_refused(run, r"All checkpoints in .* are damaged \(\*\.damaged\)")
    assert len(list(tmp_path.glob("*.damaged"))) == 2 * len(parts)
    # Undamaged weights keep their names, and the message says how to use them.
    assert run.store.steps() == ([1, 2] if parts == ["state"] else [])
    assert ("weights of step 2, pass --init_from=" in message) == (parts == ["state"])
    for path in tmp_path.iterdir():
        path.unlink()
    assert run.resume() == (None, [])


def test_old_damaged_files_do_not_prevent_resuming(tmp_path):
    run = Run(tmp_path)
    for step in (1, 2, 3):
        run.save(step)
    damage(run.store.state_path(3))
    step, lines = run.resume()
    assert step == 2
    assert "state-00000003.npz is damaged" in lines[0]
    assert {"state-00000003.damaged", "weights-00000003.damaged"} < {*files(tmp_path)}
    assert run.resume() == (2, [])
    damage(run.store.weights_path(2), run.store.state_path(1))
    assert_refused(run, "All checkpoints in .* are damaged")


@pytest.mark.parametrize("older", [False, True])
def test_weights_without_state_are_refused_and_left_unchanged(tmp_path, older):
    run = Run(tmp_path, keep=1)
    for step in (7, 9):
        run.save(step)
        run.store.state_path(step).unlink()
    if older:  # A state without weights cannot be resumed from either.
        run.save(5)
        run.store.weights_path(5).unlink()
    before = files(tmp_path)
    message = assert_refused(
        run, r"There are weights in .*, but no state \(state-\*\.npz\)"
    )
    assert (
        f"weights of step 9, pass --init_from={tmp_path.parent} and another --model_dir"
        in message
    )
    assert files(tmp_path) == before


def test_newer_weights_without_state_are_renamed(tmp_path):
    earlier = Run(tmp_path)
    for step in (1, 2, 8, 9):
        earlier.save(step, val_nll=2.0)
    for step in (8, 9):
        earlier.store.state_path(step).unlink()
    run = Run(tmp_path, keep=1, keep_best=1)
    step, lines = run.resume()
    assert step == 2
    assert len(lines) == 1
    assert "weights-00000009.npz has no state" in lines[0]
    renamed = [f"weights-0000000{step}.stateless" for step in (8, 9)]
    # Renamed weights are neither the latest nor the best, and are not averaged.
    assert run.store.steps() == [1, 2]
    for step in (3, 4, 8, 9, 10):
        run.save(step, val_nll=2.5 / step)
        assert run.resume() == (step, [])
        assert run.store.steps() == [step]
    assert [name for name in files(tmp_path) if name.endswith("less")] == renamed
    load_arrays(tmp_path / renamed[1])


def test_states_are_kept_only_with_their_weights(tmp_path):
    run = Run(tmp_path, keep=2, keep_best=0)
    for step in (1, 2, 3, 4, 5, 6):
        run.save(step)
    assert files(tmp_path) == [
        "state-00000005.npz",
        "state-00000006.npz",
        "weights-00000005.npz",
        "weights-00000006.npz",
    ]
    run = Run(tmp_path, keep=9)
    for step in (7, 8, 9):
        run.save(step)
    assert run.store.steps() == [5, 6, 7, 8, 9]
    states = [name for name in files(tmp_path) if name.startswith("state")]
    assert states == [f"state-0000000{step}.npz" for step in (7, 8, 9)]


class Killed(BaseException):
    """A simulated kill, which the code under test cannot catch."""


def killed_at(monkeypatch, number, action):
    """Runs an action that is killed before its n-th file operation.

    Returns:
        Whether it was killed; False if it has fewer operations.
    """
    counter = itertools.count()

    def until_killed(operation):
        def operate(*arguments, **keywords):
            # Operations of cleanup code must not run either.
            if next(counter) >= number:
                raise Killed
            return operation(*arguments, **keywords)

        return operate

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", until_killed(os.replace))
        for name in ("unlink", "rename"):
            patch.setattr(Path, name, until_killed(getattr(Path, name)))
        try:
            action()
        except Killed:
            return True
    return False


def test_failed_save_keeps_earlier_checkpoints(tmp_path, monkeypatch):
    run = Run(tmp_path)
    run.save(2)
    before = files(tmp_path)

    def full(source, target):
        if Path(target).name.startswith("weights"):
            raise OSError(errno.ENOSPC, "No space left on device")
        os.rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            run.save(4)
    assert files(tmp_path) == before
    assert run.resume() == (2, [])


def fresh(run):
    """Prepares a run without checkpoints."""
    return {None}, lambda: run.save(4)


def growing(run):
    """Prepares a save that removes the oldest checkpoint."""
    for step in (1, 2, 3):
        run.save(step, val_nll=9.0 - step)
    return {3}, lambda: run.save(4, val_nll=1.0)


def overwriting(run):
    """Prepares a save over weights of another run."""
    run.save(2)
    other = Run(run.store.directory, offset=0.5)
    other.save(4)
    other.store.state_path(4).unlink()
    return {2}, lambda: run.save(4)


def repeating(run):
    """Prepares a second save of the same step."""
    run.save(2)
    run.save(4)
    return {2, 4}, lambda: run.save(4)


def renaming(run):
    """Prepares resuming from a run whose newest two checkpoints are damaged."""
    for step in (2, 3, 4):
        run.save(step)
    damage(run.store.state_path(3), run.store.weights_path(4))
    return {2}, run.resume


@pytest.mark.parametrize("prepare", [fresh, growing, overwriting, repeating])
def test_kill_between_any_two_file_operations_loses_at_most_the_new_checkpoint(
    tmp_path, monkeypatch, prepare
):
    for number in itertools.count():
        run = Run(tmp_path / str(number), keep=2, keep_best=1)
        before, action = prepare(run)
        was_killed = killed_at(monkeypatch, number, action)
        step, _ = run.resume()
        assert step in before | {4}, number
        run.save(5)
        assert run.resume()[0] == 5
        if not was_killed:
            assert step == 4
            break
    assert number >= 3


def test_kill_while_damaged_checkpoints_are_renamed_changes_nothing(
    tmp_path, monkeypatch
):
    for number in itertools.count():
        run = Run(tmp_path / str(number))
        before, action = renaming(run)
        was_killed = killed_at(monkeypatch, number, action)
        assert {run.resume()[0]} == before
        assert run.resume() == (2, [])
        if not was_killed:
            break
    assert number == 4


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
