"""A model registry in this process, for tests of serving."""

import contextlib
import shutil
import threading

import numpy as np
from tensorflow_serving.apis.model_pb2 import ModelSpec
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from t2t_keras.server.model_registry import Registry
from t2t_keras.server.prometheus import Metrics

WAIT = 120  # Seconds until a hanging test fails.


class Log:
    """Log of reported lines."""

    def __init__(self):
        self.lines = []
        self._changed = threading.Condition()

    def __call__(self, line):
        with self._changed:
            self.lines.append(line)
            self._changed.notify_all()

    def wait_for(self, text):
        with self._changed:
            assert self._changed.wait_for(
                lambda: any(text in line for line in self.lines), WAIT
            ), self.lines

    def count(self, text):
        return sum(text in line for line in self.lines)


def config_of(**base_paths):
    """Returns a configuration of models with their base paths."""
    config = ModelServerConfig()
    for name, path in base_paths.items():
        config.model_config_list.config.add(name=name, base_path=str(path))
    return config


@contextlib.contextmanager
def registry_of(config, **options):
    """Runs a registry. Yields it and its log."""
    log = Log()
    running = Registry(config, Metrics(), 0.02, report=log, **options)
    running.loaded = running.start()
    try:
        yield running, log
    finally:
        assert running.stop(WAIT)


def factor(registry, name, label=""):
    """Returns the factor of a model of `arithmetic`, found by a request."""
    version, model = registry.acquire(ModelSpec(name=name, version_label=label or None))
    try:
        x = {"x": np.array([1], np.float32)}
        return float(model.run("serving_default", x, {"y"})["y"][0])
    finally:
        version.release()


def add_version(versions, base, number, of):
    """Adds a version to a base path atomically.

    Args:
        versions: Directory of the versions to copy.
        base: Base path; created if it does not exist.
        number: Number of the new version.
        of: Number of the version to copy.
    """
    base.mkdir(exist_ok=True)
    shutil.copytree(versions / str(of), base / f".{number}")
    (base / f".{number}").rename(base / str(number))
