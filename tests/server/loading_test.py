"""Versions are loaded and unloaded independently of each other."""

import gc
import os
import shutil
import sys
import threading

import pytest
import served
import tensorflow as tf
from arithmetic import write_arithmetic
from registries import WAIT, add_version, config_of, factor, registry_of

from t2t_keras.server.serving_errors import ServingError


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """Directory with versions that multiply by 2 and by 3."""
    path = tmp_path_factory.mktemp("versions")
    for number in (2, 3):
        write_arithmetic(path / str(number), number)
    return path


class Slow:
    """A base path whose version 1 multiplies by 7 and warms up until `may_end`."""

    def __init__(self, root):
        self.base, self._gate, self._pipe = (
            root / name for name in ("slow", "gate", "pipe")
        )
        self.base.mkdir()
        os.mkfifo(self._pipe)
        inputs = {"started": str(self._pipe), "path": str(self._gate)}
        write_arithmetic(self.base / "1", 7, ("announce", inputs))

    def wait_until_started(self):
        assert self._pipe.read_bytes() == b"started"

    def may_end(self):
        self._gate.touch()


@pytest.fixture
def slow(tmp_path):
    return Slow(tmp_path)


def test_slow_warmup_does_not_delay_other_models(slow, versions, tmp_path):
    add_version(versions, tmp_path / "fast", 1, of=2)
    config = config_of(slow=slow.base, fast=tmp_path / "fast")
    with registry_of(config) as (registry, log):
        slow.wait_until_started()
        log.wait_for("fast: version 1 is available")
        add_version(versions, tmp_path / "fast", 2, of=3)
        log.wait_for("fast: version 1 is being unloaded")
        assert factor(registry, "fast") == 3
        assert not registry.is_ready()
        assert not registry.loaded.done()
        slow.may_end()
        registry.loaded.result(WAIT)
        assert registry.is_ready()
        assert factor(registry, "slow") == 7


def test_num_load_threads_limits_concurrent_loading(slow, versions):
    with registry_of(config_of(slow=slow.base), num_load_threads=1) as (registry, log):
        slow.wait_until_started()
        registry.reload(config_of(slow=slow.base, fast=versions), is_trusted=True)
        log.wait_for("fast: version 3 is being loaded")
        slow.may_end()
        log.wait_for("fast: version 3 is available")
        assert factor(registry, "slow") == 7  # It was loaded before.


def test_waiting_reloads_do_not_use_threads(slow, versions, tmp_path):
    add_version(versions, tmp_path / "fast", 1, of=2)
    with registry_of(config_of(fast=tmp_path / "fast")) as (registry, _):
        registry.loaded.result(WAIT)
        config = config_of(slow=slow.base, fast=tmp_path / "fast")
        first = registry.reload(config, is_trusted=True)
        slow.wait_until_started()
        threads = threading.active_count()
        reloads = [registry.reload(config) for _ in range(100)]
        assert not any(reload.done() for reload in [first, *reloads])
        assert threading.active_count() == threads
        assert factor(registry, "fast") == 2
        slow.may_end()
        for reload in [first, *reloads]:
            reload.result(WAIT)


def test_loading_is_cancelled_if_version_is_no_longer_requested(slow, versions):
    with registry_of(config_of(slow=slow.base)) as (registry, log):
        slow.wait_until_started()
        add_version(versions, slow.base, 2, of=2)
        registry.loaded.result(WAIT)
        assert factor(registry, "slow") == 2
        log.wait_for("slow: version 1 is no longer requested")


def test_replaced_reload_is_aborted(slow, versions):
    with registry_of(config_of(slow=slow.base)) as (registry, log):
        slow.wait_until_started()
        replaced = registry.reload(config_of(slow=slow.base))
        registry.reload(config_of(other=versions), is_trusted=True).result(WAIT)
        assert replaced.exception(WAIT).code.name == "ABORTED"
        log.wait_for("slow: version 1 is no longer requested")
        assert registry.names == ["other"]


@pytest.mark.parametrize("problem", ["empty", "missing", "broken"])
def test_reload_to_base_path_without_version_keeps_old_versions(
    versions, tmp_path, problem
):
    old, new = tmp_path / "old", tmp_path / "new"
    add_version(versions, old, 1, of=2)
    if problem != "missing":
        new.mkdir()
    if problem == "broken":
        (new / "1").mkdir()
        (new / "1" / "saved_model.pb").write_bytes(b"broken")
    with registry_of(config_of(m=old), reload_dirs=[str(new)]) as (registry, log):
        registry.loaded.result(WAIT)
        with pytest.raises(ServingError, match=r"\['m'\]") as raised:
            registry.reload(config_of(m=new)).result(WAIT)
        assert raised.value.code.name == "UNKNOWN"
        assert str(new) in raised.value.message
        assert factor(registry, "m") == 2
        assert registry.is_ready()
        # The first available version of the new path takes over.
        add_version(versions, new, 3, of=3)
        log.wait_for(f"m: now serving from {new}")
        assert factor(registry, "m") == 3
        log.wait_for("m: version 1 is closed")


def test_reload_to_missing_version_keeps_old_versions(versions, tmp_path):
    add_version(versions, tmp_path / "m", 1, of=2)
    config = config_of(m=tmp_path / "m")
    with registry_of(config) as (registry, _):
        registry.loaded.result(WAIT)
        policy = config.model_config_list.config[0].model_version_policy
        policy.specific.versions.append(9)
        error = registry.reload(config).exception(WAIT)
        assert error.code.name == "UNKNOWN"
        assert "has the versions [1], but not [9]" in error.message
        assert "earlier versions of ['m'] are served" in error.message
        assert factor(registry, "m") == 2


def test_reload_back_to_old_base_path_cancels_the_change(versions, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    add_version(versions, old, 1, of=2)
    new.mkdir()
    with registry_of(config_of(m=old), reload_dirs=[str(new)]) as (registry, log):
        registry.loaded.result(WAIT)
        assert registry.reload(config_of(m=new)).exception(WAIT)
        registry.reload(config_of(m=old)).result(WAIT)
        add_version(versions, new, 3, of=3)
        add_version(versions, old, 2, of=3)
        log.wait_for("m: version 1 is being unloaded")
        assert log.count("now serving from") == 0
        assert log.count("is being loaded") == 2


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("missing", "there is no directory {base}."),
        (".", "{base} has no versions: a version is a subdirectory"),
        ("2", "Use its parent directory as the base path: {base.parent}"),
        ("model", "Move it to a subdirectory whose name is a number: {base}/1"),
    ],
)
def test_base_path_without_versions_is_reported_once(versions, tmp_path, path, hint):
    shutil.copytree(versions / "2", tmp_path / "2")
    shutil.copytree(versions / "2", tmp_path / "model")
    if path == ".":
        shutil.rmtree(tmp_path / "2")
    base = (tmp_path / path).resolve()
    with registry_of(config_of(m=base)) as (registry, log):
        assert registry.loaded.exception(WAIT).code.name == "UNKNOWN"
        # The second search does not report the problem again.
        assert registry.reload(config_of(m=base)).exception(WAIT)
        assert log.count(hint.format(base=base)) == 1, log.lines


def test_missing_versions_of_the_policy_are_reported(versions):
    config = config_of(m=versions)
    policy = config.model_config_list.config[0].model_version_policy
    policy.specific.versions.extend([2, 9])
    with registry_of(config) as (registry, log):
        registry.loaded.result(WAIT)
        assert log.count("has the versions [2, 3], but not [9]") == 1


def count_graphs():
    return sum(isinstance(each, tf.Graph) for each in gc.get_objects())


def test_unloaded_version_leaves_no_graph_behind(versions, tmp_path):
    add_version(versions, tmp_path / "m", 1, of=2)
    with registry_of(config_of(m=tmp_path / "m")) as (registry, log):
        registry.loaded.result(WAIT)
        gc.collect()
        gc.disable()  # Only the server's own garbage collection remains.
        try:
            before = count_graphs()
            for number in range(2, 5):
                add_version(versions, tmp_path / "m", number, of=3)
                log.wait_for(f"m: version {number - 1} is closed")
            assert count_graphs() == before
        finally:
            gc.enable()


@pytest.mark.parametrize("signature", ["announce", "block"])
def test_sigterm_during_warmup_shuts_down_within_grace_period(tmp_path, signature):
    """Both if the computation can be interrupted and if it cannot."""
    started, never = tmp_path / "started", tmp_path / "never"
    os.mkfifo(started)
    if signature == "block":
        os.mkfifo(never)
    (tmp_path / "m").mkdir()
    inputs = {"started": str(started), "path": str(never)}
    write_arithmetic(tmp_path / "m" / "1", 2, (signature, inputs))
    running = served.Server(f"--model_base_path={tmp_path / 'm'}", "--grace_s=3")
    try:
        assert started.read_bytes() == b"started"
        assert running.stop() == 0
    finally:
        running.process.kill()
        running.process.wait()
        running.process.stderr.close()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
