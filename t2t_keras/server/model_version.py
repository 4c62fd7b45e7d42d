"""The life cycle of a model version, from loading to closing."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis.get_model_status_pb2 import (
    ModelVersionStatus as Status,
)

from t2t_keras.export.row_independence import are_rows_independent, output_padding
from t2t_keras.server.prometheus import Metrics
from t2t_keras.server.saved_model import SavedModel, new_session
from t2t_keras.server.serving_errors import ServingError
from t2t_keras.server.warmup_inputs import warmup_inputs

_MAX_SECONDS_BETWEEN_ATTEMPTS = 60


class Version:
    """A version of a model, from loading to closing.

    It is loaded and closed in threads of its own, so that neither delays a request.

    Args:
        number: Version number.
        path: Directory of the version.
        enable_batching: Whether requests of several clients may share a batch. Default:
            if the version is marked as having independent rows.
        on_idle: Called when the last request to an unloaded version has ended. Default
            nothing.

    Attributes:
        state: A `ModelVersionStatus.State`.
        error: Error of the last attempt to load, or None.
        joins_requests: Whether requests may share a batch, for signatures whose inputs
            and outputs all have a variable first axis.
        is_deterministic: Whether the version is marked as giving equal rows equal
            outputs.
        padding: Padding values by name of the outputs whose rows differ in shape.
    """

    def __init__(
        self,
        number: int,
        path: Path,
        enable_batching: bool | None = None,
        on_idle: Callable[[], None] = lambda: None,
    ) -> None:
        self.number = number
        self.path = path
        self.joins_requests = bool(enable_batching)
        self.is_deterministic = False
        self.padding: dict[str, Any] = {}
        self.state = Status.START
        self.error: ServingError | None = None
        self._enable_batching = enable_batching
        self._on_idle = on_idle
        self._model: SavedModel | None = None
        self._session: tf.compat.v1.Session | None = None
        self._cancelled = False
        self._attempts = 0
        self._last_attempt = 0.0
        self._active_requests = 0
        self._lock = threading.Lock()

    @property
    def is_available(self) -> bool:
        """Whether the version accepts requests."""
        return self.state == Status.AVAILABLE

    @property
    def is_loading(self) -> bool:
        """Whether the version is being loaded or about to be loaded."""
        return self.state in (Status.START, Status.LOADING)

    def load(self, metrics: Metrics) -> None:
        """Loads the version and warms it up; stores a failure in `error`."""
        started = time.perf_counter()
        session = new_session()
        with self._lock:
            self._session = session
            self._attempts += 1
            if self._cancelled:
                self.state = Status.END
                return
            self.state = Status.LOADING
        error: ServingError | None = None
        model: SavedModel | None = None
        try:
            model = SavedModel(self.path, session)
            self._warm_up(model)
            self.is_deterministic = are_rows_independent(self.path)
            if self._enable_batching is None:
                self.joins_requests = self.is_deterministic
            self.padding = output_padding(self.path)
        except Exception as raised:
            # A broken version must not stop the server: it serves others.
            error = ServingError.of(raised)
        with self._lock:
            is_cancelled = self._cancelled
            self._session = None
            self._last_attempt = time.monotonic()
            if not error and not is_cancelled:
                self._model, self.error, self.state = model, None, Status.AVAILABLE
        if error or is_cancelled:
            session.close()
            self.error = None if is_cancelled else error
            self.state = Status.END
        if is_cancelled:
            return
        metrics.load_attempt_count.inc(str(self.path), "fail" if error else "success")
        if not error:
            micros = (time.perf_counter() - started) * 1e6
            metrics.load_latency.labels(str(self.path)).observe(micros)

    def _warm_up(self, model: SavedModel) -> None:
        for signature, inputs in warmup_inputs(self.path):
            model.check(signature, inputs)
            model.run(signature, inputs, model.outputs_of(signature, ()))

    def cancel(self) -> None:
        """Cancels loading as soon as the current operation can be interrupted."""
        with self._lock:
            self._cancelled = self.is_loading
            session, self._session = self._session, None
        if session:
            # Closing interrupts the session, but waits for uninterruptible operations.
            threading.Thread(target=session.close, daemon=True).start()

    def may_retry(self) -> bool:
        """Returns whether loading failed and the next attempt is due.

        A version may still be being copied to its place, so attempts continue with
        increasing delays.
        """
        wait = min(2 ** min(self._attempts, 10), _MAX_SECONDS_BETWEEN_ATTEMPTS)
        has_failed = self.state == Status.END and self.error is not None
        return has_failed and time.monotonic() > self._last_attempt + wait

    def retry(self) -> None:
        """Prepares another attempt to load."""
        self._cancelled = False
        self.error, self.state = None, Status.START

    def acquire(self) -> SavedModel | None:
        """Returns the model for a request, or None if unavailable."""
        with self._lock:
            if not self.is_available:
                return None
            self._active_requests += 1
            return self._model

    def release(self) -> None:
        """Ends a request that has acquired the version."""
        with self._lock:
            self._active_requests -= 1
            is_last = self.state == Status.UNLOADING and not self._active_requests
        if is_last:
            self._on_idle()

    def unload(self) -> None:
        """Rejects new requests; the version can be closed once it is idle."""
        with self._lock:
            if self.is_available:
                self.state = Status.UNLOADING

    @property
    def is_idle(self) -> bool:
        """Whether the version is unloaded, has no requests, and can be closed."""
        return self.state == Status.UNLOADING and not self._active_requests

    def close(self) -> None:
        """Frees the model; waits for uninterruptible operations."""
        model, self._model = self._model, None
        if model:
            model.close()
        self.state = Status.END

    def status(self) -> Status:
        """Returns the state as a ModelVersionStatus."""
        status = Status(version=self.number, state=self.state)
        status.status.SetInParent()  # Sends OK, too.
        if self.error:
            status.status.error_code = self.error.code.value[0]
            status.status.error_message = self.error.message
        return status
