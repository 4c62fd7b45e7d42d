"""Keeps a server's models at what its configuration and its directories say."""

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
from t2t_keras.server.model_config import check_inside, checked_models, resolved
from t2t_keras.server.model_set import ModelSet
from t2t_keras.server.model_version import Status, Version
from t2t_keras.server.prometheus import Metrics
from t2t_keras.server.saved_model import SavedModel
from t2t_keras.server.serving_errors import ServingError
from t2t_keras.server.version_set import VersionedModel

_RETRY_SECONDS = 1.0
"""How often it is time for another attempt to load, where nobody polls."""


@dataclasses.dataclass(frozen=True, eq=False)
class _Order:
    """A configuration that is to be taken, and the future of who waits for it."""

    models: Mapping[str, ModelConfig]
    done: "Future[None]"


class Registry:
    """Looks for versions, loads and unloads them, and finds them for requests.

    A thread of its own changes models; each version is loaded in another one. Requests
    only read, and wait for neither. A name or a label that a client sends is only ever
    looked up among those of the configuration; no path is made of it.

    Args:
        config: The models.
        metrics: Where loading is counted.
        poll_seconds: How often to look for new versions; 0 for once. Default 1.
        labels_before_versions: Whether a new label may be given to a version that is
            not available yet. Default False, as in TensorFlow Serving.
        reload_dirs: Directories whose subdirectories `reload` may name as base paths,
            beside those of `config`. Default none.
        report: Is told of what happens, a line at a time, by several threads.
        enable_batching: Whether requests of several clients may be answered in one
            batch. Default: by the versions that say that their rows are independent,
            as this project's exports do.
        num_load_threads: Maximum number of versions that are loaded at once; 0 for no
            limit. Default 0.

    Raises:
        UserError: If the configuration is wrong.
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

        def make(config: ModelConfig) -> VersionedModel:
            changed = self._has_changed.set
            return VersionedModel(
                config, metrics, report, changed, slots, enable_batching
            )

        self._set = ModelSet(make, labels_before_versions, report)
        self._orders: deque[_Order] = deque()
        self._waiting: list[_Order] = []
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="registry", daemon=True)
        try:
            models = checked_models(config)
            paths = [*reload_dirs, *(model.base_path for model in models.values())]
            self._roots = {resolved(path) for path in paths}
            self._set.take(models)
        except ServingError as error:
            raise UserError(error.message) from error
        self._waiting.append(_Order(models, Future()))

    def start(self) -> "Future[None]":
        """Begins to load what there is, and goes on looking.

        Returns:
            Is done when the first attempt to load each version has ended. It raises a
            `ServingError` if a model has no version that can be loaded.
        """
        (first,) = self._waiting
        first.done.set_running_or_notify_cancel()
        self._thread.start()
        return first.done

    def stop(self, seconds: float = 60.0) -> bool:
        """Stops looking, ends all loading and unloads all models.

        Args:
            seconds: How long to wait. Default 60.

        Returns:
            Whether all has ended. If not, an operation cannot be interrupted.
        """
        until = time.monotonic() + seconds
        self._is_stopping = True
        self._has_changed.set()
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        self._set.end()
        return self._set.join(until)

    def reload(
        self, config: ModelServerConfig, is_trusted: bool = False
    ) -> "Future[None]":
        """Replaces the configuration, and loads what it asks for.

        A model whose base path changes is answered by the versions that it has until
        one of the new path is available.

        Args:
            config: All models from now on. Their base paths lie in those that the
                server was started with, or in `reload_dirs`: a client may not have it
                read other files.
            is_trusted: Whether they may lie elsewhere, and do so from now on. Default
                False.

        Returns:
            Is done when the attempts to load the models have ended. It raises a
            `ServingError` if the configuration cannot be taken, and nothing changes,
            or if a model has no version at its base path that can be loaded.

        Raises:
            ServingError: If the configuration is wrong, and nothing changes.
        """
        models = checked_models(config)
        if is_trusted:
            self._roots |= {resolved(model.base_path) for model in models.values()}
        check_inside(models.values(), self._roots)
        order = _Order(models, Future())
        self._orders.append(order)
        self._has_changed.set()
        return order.done

    def _run(self) -> None:
        next_look = 0.0
        while not self._is_stopping:
            self._has_changed.clear()
            look = time.monotonic() >= next_look
            while self._orders:
                self._take(self._orders.popleft())
                look = True
            if look:
                wait = self._poll_seconds or float("inf")
                next_look = time.monotonic() + wait
            self._set.update(look)
            self._waiting = [order for order in self._waiting if not self._told(order)]
            wait = min(next_look - time.monotonic(), _RETRY_SECONDS)
            self._has_changed.wait(max(wait, 0))

    def _take(self, order: _Order) -> None:
        if not order.done.set_running_or_notify_cancel():
            return
        try:
            self._set.take(order.models)
        except ServingError as error:
            order.done.set_exception(error)
        else:
            self._waiting.append(order)

    def _told(self, order: _Order) -> bool:
        """Answers who waits for the models of an order, if there is an answer."""
        error: ServingError | None
        try:
            models = self._set.in_force(order.models)
            if any(model.is_loading() for model in models):
                return False
            error = self._set.unavailable(models)
        except ServingError as replaced:
            error = replaced
        if error:
            order.done.set_exception(error)
        else:
            order.done.set_result(None)
        return True

    @property
    def names(self) -> list[str]:
        """The names of the models."""
        return self._set.names

    def is_ready(self) -> bool:
        """Tells whether every model has an available version."""
        return self._set.is_ready()

    def acquire(self, spec: ModelSpec) -> tuple[Version, SavedModel]:
        """Finds the version that a request asks for, which has to release it.

        Raises:
            ServingError: If there is none.
        """
        return self._set.acquire(spec)

    def statuses(self, spec: ModelSpec) -> list[Status]:
        """Returns the states of a model's versions.

        Raises:
            ServingError: If there is no such model or version.
        """
        return self._set.statuses(spec)
