"""A file of models that is read again while the server runs."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

from t2t_keras.errors import UserError
from t2t_keras.server.operator_config import read_text_message
from t2t_keras.server.registry import Registry
from t2t_keras.server.serving_errors import ServingError


class ConfigFile:
    """A ModelServerConfig as text.

    Args:
        path: The file.
        report: Is told of what happens, a line at a time.

    Raises:
        UserError: If it cannot be read.
    """

    def __init__(self, path: str | Path, report: Callable[[str], None]) -> None:
        self._path = Path(path)
        self._report = report
        self._trouble = ""
        self.config = self._read()
        """What the file said last."""

    def _read(self) -> ModelServerConfig:
        return read_text_message(self._path, ModelServerConfig())

    def follow(self, registry: Registry, seconds: float) -> threading.Thread:
        """Begins to give a registry what is new in the file.

        Args:
            registry: What has been made of `config`.
            seconds: How often to look.

        Returns:
            The thread that does, which never ends.
        """

        def run() -> None:
            while True:
                time.sleep(seconds)
                self.look(registry)

        thread = threading.Thread(target=run, name="config file", daemon=True)
        thread.start()
        return thread

    def look(self, registry: Registry) -> None:
        """Gives a registry what the file says, if that is not in force."""
        try:
            config = self._read()
            if config == self.config and not self._trouble:
                return
            taken = registry.reload(config, is_trusted=True)
        except (ServingError, UserError) as error:
            self._say(str(error))
        else:
            if config != self.config:
                self._report(f"{self._path} has changed.")
            self.config = config
            taken.add_done_callback(self._told)

    def _told(self, taken: "Future[None]") -> None:
        error = taken.exception()
        self._say(str(error) if error else "")

    def _say(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            self._report(f"{self._path} is not in force: {trouble}")
        self._trouble = trouble
