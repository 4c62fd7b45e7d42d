"""Model configuration file that is reloaded while the server runs."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from t2t_keras.errors import UserError
from t2t_keras.server.model_registry import Registry
from t2t_keras.server.serving_config_files import read_text_message
from t2t_keras.server.serving_errors import ServingError


class ConfigFile:
    """A ModelServerConfig in text format.

    Args:
        path: Path of the file.
        report: Called with each line of the log.

    Raises:
        UserError: If the file cannot be read.
    """

    def __init__(self, path: str | Path, report: Callable[[str], None]) -> None:
        self._path = Path(path)
        self._report = report
        self._problem = ""
        self.config = self._read()
        """Last valid content of the file."""

    def _read(self) -> ModelServerConfig:
        return read_text_message(self._path, ModelServerConfig())

    def watch(self, registry: Registry, seconds: float) -> threading.Thread:
        """Starts a thread that applies changes of the file to a registry.

        Args:
            registry: Registry created from `config`.
            seconds: Polling interval in seconds.

        Returns:
            The thread; it never ends.
        """

        def run() -> None:
            while True:
                time.sleep(seconds)
                self.apply_changes(registry)

        thread = threading.Thread(target=run, name="config file", daemon=True)
        thread.start()
        return thread

    def apply_changes(self, registry: Registry) -> None:
        """Applies the file to a registry if it has changed or was not applied yet."""
        try:
            config = self._read()
            if config == self.config and not self._problem:
                return
            applied = registry.reload(config, is_trusted=True)
        except (ServingError, UserError) as error:
            self._report_once(str(error))
        else:
            if config != self.config:
                self._report(f"{self._path} has changed.")
            self.config = config
            applied.add_done_callback(self._on_applied)

    def _on_applied(self, applied: "Future[None]") -> None:
        error = applied.exception()
        self._report_once(str(error) if error else "")

    def _report_once(self, problem: str) -> None:
        if problem and problem != self._problem:
            self._report(f"{self._path} is not applied: {problem}")
        self._problem = problem
