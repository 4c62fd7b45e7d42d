"""Keeps a server's models in line with its configuration and directories."""

import contextlib
import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from tensorflow_serving.apis.model_pb2 import ModelSpec
from tensorflow_serving.config.model_server_config_pb2 import (
    ModelConfig,
    ModelServerConfig,
)

from t2t_keras.errors import UserError
from t2t_keras.server.model_config import check_inside, resolve_path, validate_models
from t2t_keras.server.model_set import ModelSet
from t2t_keras.server.model_version import Status, Version
from t2t_keras.server.prometheus import Metrics
from t2t_keras.server.saved_model import SavedModel
from t2t_keras.server.serving_errors import ServingError
from t2t_keras.server.version_set import VersionedModel

_RETRY_SECONDS = 1.0
"""Interval between checks for failed loads that can be retried."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Change:
    """A configuration to apply, and the future that reports the outcome."""

    models: Mapping[str, ModelConfig]
    done: "Future[None]"


class Registry:
    """Finds versions, loads and unloads them, and provides them to requests.

    One thread changes the models, and each version is loaded in a thread of its own.
    Requests only read and wait for neither. Names and labels from clients are only
    looked up in the configuration and never become part of a path.

    Args:
        config: The models.
        metrics: Prometheus metrics.
        poll_seconds: Interval in seconds between searches for new versions; 0 to search
            only once. Default 1.
        labels_before_versions: Whether a new label may be assigned to a version that is
            not available yet. Default False, as in TensorFlow Serving.
        reload_dirs: Directories whose subdirectories `reload` may use as base paths, in
            addition to those of `config`. Default none.
        report: Called with each line of the log, from several threads.
        enable_batching: Whether requests of several clients may share a batch. Default:
            if the version is marked as having independent rows, as this project's
            exports are.
        num_load_threads: Maximum number of versions loaded concurrently; 0 for no
            limit. Default 0.

    Raises:
        UserError: If the configuration is invalid.
    """

    def __init__(
        self,
        config: ModelServerConfig,
        metrics: Metrics,
        poll_seconds: float = 1.0,
        labels_before_versions: bool = False,
        reload_dirs: Sequence[str] = (),
        report: Callable[[str], None] = lambda line: None,
        enable_batching: bool | None = None,
        num_load_threads: int = 0,
    ) -> None:
        self._poll_seconds = poll_seconds
        self._has_changed = threading.Event()
        slots: contextlib.AbstractContextManager[object] = (
            threading.BoundedSemaphore(num_load_threads)
            if num_load_threads
            else contextlib.nullcontext()
        )

        def make_model(config: ModelConfig) -> VersionedModel:
            changed = self._has_changed.set
            return VersionedModel(
                config, metrics, report, changed, slots, enable_batching
            )

        self._set = ModelSet(make_model, labels_before_versions, report)
        self._changes: deque[_Change] = deque()
        self._pending: list[_Change] = []
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="registry", daemon=True)
        try:
            models = validate_models(config)
            paths = [*reload_dirs, *(model.base_path for model in models.values())]
            self._roots = {resolve_path(path) for path in paths}
            self._set.apply(models)
        except ServingError as error:
            raise UserError(error.message) from error
        self._pending.append(_Change(models, Future()))

    def start(self) -> "Future[None]":
        """Starts to load the existing versions and to look for new ones.

        Returns:
            Future that is done when the first attempt to load each version has ended.
            It raises a `ServingError` if no version of a model can be loaded.
        """
        (first,) = self._pending
        first.done.set_running_or_notify_cancel()
        self._thread.start()
        return first.done

    def stop(self, seconds: float = 60.0) -> bool:
        """Stops polling, cancels all loading and unloads all models.

        Args:
            seconds: Timeout in seconds. Default 60.

        Returns:
            Whether everything has ended. If not, an operation cannot be interrupted.
        """
        deadline = time.monotonic() + seconds
        self._is_stopping = True
        self._has_changed.set()
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        self._set.unload_all()
        return self._set.join(deadline)

    def reload(
        self, config: ModelServerConfig, is_trusted: bool = False
    ) -> "Future[None]":
        """Replaces the configuration and loads its models.

        A model whose base path changes serves its old versions until a version of the
        new path is available.

        Args:
            config: All models from now on. Their base paths must lie inside those that
                the server was started with or inside `reload_dirs`, so that a client
                cannot make the server read other files.
            is_trusted: Whether to allow all base paths of `config`, now and in later
                calls. Default False.

        Returns:
            Future that is done when the attempts to load the models have ended. It
            raises a `ServingError` if the configuration cannot be applied, and nothing
            changes, or if no version at the base path of a model can be loaded.

        Raises:
            ServingError: If the configuration is invalid; nothing changes then.
        """
        models = validate_models(config)
        if is_trusted:
            self._roots |= {resolve_path(model.base_path) for model in models.values()}
        check_inside(models.values(), self._roots)
        change = _Change(models, Future())
        self._changes.append(change)
        self._has_changed.set()
        return change.done

    def _run(self) -> None:
        next_look = 0.0
        while not self._is_stopping:
            self._has_changed.clear()
            look_for_versions = time.monotonic() >= next_look
            while self._changes:
                self._apply(self._changes.popleft())
                look_for_versions = True
            if look_for_versions:
                wait = self._poll_seconds or float("inf")
                next_look = time.monotonic() + wait
            self._set.update(look_for_versions)
            self._pending = [
                change
                for change in self._pending
                if not self._complete_if_loaded(change)
            ]
            wait = min(next_look - time.monotonic(), _RETRY_SECONDS)
            self._has_changed.wait(max(wait, 0))

    def _apply(self, change: _Change) -> None:
        if not change.done.set_running_or_notify_cancel():
            return
        try:
            self._set.apply(change.models)
        except ServingError as error:
            change.done.set_exception(error)
        else:
            self._pending.append(change)

    def _complete_if_loaded(self, change: _Change) -> bool:
        """Completes the future of a change if its models are loaded or failed."""
        error: ServingError | None
        try:
            models = self._set.current_models(change.models)
            if any(model.is_loading() for model in models):
                return False
            error = self._set.unavailable_error(models)
        except ServingError as replaced:
            error = replaced
        if error:
            change.done.set_exception(error)
        else:
            change.done.set_result(None)
        return True

    @property
    def names(self) -> list[str]:
        """Names of the models."""
        return self._set.names

    def is_ready(self) -> bool:
        """Returns whether every model has an available version."""
        return self._set.is_ready()

    def acquire(self, spec: ModelSpec) -> tuple[Version, SavedModel]:
        """Returns the version for a request; the caller must release it.

        Raises:
            ServingError: If it is not available.
        """
        return self._set.acquire(spec)

    def statuses(self, spec: ModelSpec) -> list[Status]:
        """Returns the states of a model's versions.

        Raises:
            ServingError: If there is no such model or version.
        """
        return self._set.statuses(spec)
