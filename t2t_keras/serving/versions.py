"""The versions of one model: which there are, which are wanted, and their state."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import tensorflow as tf
from tensorflow_serving.apis.get_model_status_pb2 import (
    ModelVersionStatus as Status,
)
from tensorflow_serving.config.model_server_config_pb2 import ModelConfig

from t2t_keras.serving.errors import ServingError
from t2t_keras.serving.joint_batches import are_rows_independent
from t2t_keras.serving.metrics import Metrics
from t2t_keras.serving.saved_model import SavedModel
from t2t_keras.serving.version_dirs import versions_of
from t2t_keras.serving.warmup import read_warmup

_MOST_SECONDS_BETWEEN_ATTEMPTS = 60


class Version:
    """A version of a model, from its loading to its end.

    Args:
        number: The version.
        path: Its directory.
        enable_batching: Whether requests of several clients may be answered in one
            batch. Default: where the version says that its rows are independent.

    Attributes:
        joins_requests: Whether they are, for signatures all of whose inputs and
            outputs have a first axis of any size.
    """

    def __init__(
        self, number: int, path: Path, enable_batching: bool | None = None
    ) -> None:
        self.number = number
        self.path = path
        self.joins_requests = bool(enable_batching)
        self.state = Status.START
        self.error: ServingError | None = None
        self.attempts = 0
        self.model: SavedModel | None = None
        self._enable_batching = enable_batching
        self._tried = 0.0
        self._users = 0
        self._lock = threading.Lock()

    def load(self, metrics: Metrics) -> None:
        """Loads and warms up; a failure is kept in `error`."""
        self.state = Status.LOADING
        self.attempts = min(self.attempts + 1, 10)
        started = time.perf_counter()
        try:
            model = SavedModel(self.path)
            try:
                self._warm_up(model)
            except BaseException:
                model.close()
                raise
        except Exception as error:
            # A broken version must not stop the server: others are served.
            self.state, self.error = Status.END, ServingError.of(error)
            self._tried = time.monotonic()
            metrics.load_attempt_count.inc(str(self.path), "fail")
            return
        if self._enable_batching is None:
            self.joins_requests = are_rows_independent(self.path)
        self.model, self.error, self.state = model, None, Status.AVAILABLE
        metrics.load_attempt_count.inc(str(self.path), "success")
        micros = (time.perf_counter() - started) * 1e6
        metrics.load_latency.labels(str(self.path)).observe(micros)

    def _warm_up(self, model: SavedModel) -> None:
        for request in read_warmup(self.path):
            signature = request.model_spec.signature_name
            inputs = {name: tf.make_ndarray(x) for name, x in request.inputs.items()}
            model.check(signature, inputs)
            model.run(signature, inputs, model.outputs_of(signature, ()))

    def may_retry(self) -> bool:
        """Tells whether loading failed, and it is time for another attempt.

        Who copies a version to its place may need a while; so attempts go on, further
        and further apart.
        """
        wait = min(2**self.attempts, _MOST_SECONDS_BETWEEN_ATTEMPTS)
        return self.error is not None and time.monotonic() > self._tried + wait

    def acquire(self) -> SavedModel | None:
        """Returns the model for a request, or None if it is not available."""
        with self._lock:
            if self.state != Status.AVAILABLE:
                return None
            self._users += 1
            return self.model

    def release(self) -> None:
        """Ends a request; the last one of a version that is unloaded closes it."""
        with self._lock:
            self._users -= 1
        self._close_if_idle()

    def unload(self) -> None:
        """Takes no more requests, and frees the model once those it has are done."""
        with self._lock:
            self.state = Status.UNLOADING
        self._close_if_idle()

    def _close_if_idle(self) -> None:
        with self._lock:
            idle = self.state == Status.UNLOADING and not self._users
            model, self.model = (self.model, None) if idle else (None, self.model)
            if idle:
                self.state = Status.END
        if model:
            model.close()

    def status(self) -> Status:
        """Returns the state as ModelService tells it."""
        status = Status(version=self.number, state=self.state)
        status.status.SetInParent()  # OK is told, too.
        if self.error:
            status.status.error_code = self.error.code.value[0]
            status.status.error_message = self.error.message
        return status


class VersionedModel:
    """A model of the server's configuration, and its versions.

    Args:
        config: A ModelConfig.
        metrics: Where loading is counted.
        report: Is told of what happens, a line at a time.
        enable_batching: As of `Version`.
    """

    def __init__(
        self,
        config: ModelConfig,
        metrics: Metrics,
        report: Callable[[str], None],
        enable_batching: bool | None = None,
    ) -> None:
        self.config = config
        self._enable_batching = enable_batching
        self._metrics = metrics
        self._report = report
        self._versions: dict[int, Version] = {}

    def _wanted(self) -> dict[int, Path]:
        """Returns the versions that the policy asks for, of those there are."""
        there = versions_of(self.config.base_path)
        policy = self.config.model_version_policy
        if policy.HasField("all"):
            return there
        if policy.HasField("specific"):
            return {n: there[n] for n in policy.specific.versions if n in there}
        number = policy.latest.num_versions or 1
        return {n: there[n] for n in list(there)[-number:]}

    def update(self) -> None:
        """Loads what is new and then unloads what is not wanted any more.

        An old version goes only when a wanted one is available, so that there is no
        moment without any.
        """
        wanted = self._wanted()
        for number, version in list(self._versions.items()):
            if version.state == Status.END and not version.path.is_dir():
                del self._versions[number]
        for number, path in wanted.items():
            known = self._versions.get(number)
            ended = known and known.state == Status.END and not known.error
            if known is None or ended:
                known = self._versions[number] = Version(
                    number, path, self._enable_batching
                )
            elif not known.may_retry():
                continue
            self._load(known)
        old = [v for n, v in self._versions.items() if n not in wanted]
        if any(self._versions[number].model for number in wanted):
            for version in old:
                if version.state == Status.AVAILABLE:
                    self._report(f"{self.config.name}: version {version.number} ends.")
                    version.unload()

    def _load(self, version: Version) -> None:
        name = f"{self.config.name}: version {version.number}"
        self._report(f"{name} is being loaded ...")
        version.load(self._metrics)
        if version.error:
            self._report(f"{name} cannot be loaded: {version.error.message}")
        else:
            self._report(f"{name} is available.")
            if self._enable_batching is None and not version.joins_requests:
                self._report(
                    f"{name} does not say that its rows are independent: each request "
                    "is computed by itself. --enable_batching joins them."
                )

    def unload(self) -> None:
        """Unloads all versions."""
        for version in self._versions.values():
            if version.state == Status.AVAILABLE:
                version.unload()

    def is_available(self, number: int | None = None) -> bool:
        """Tells whether a version may be asked, or any."""
        return any(
            version.state == Status.AVAILABLE
            for each, version in list(self._versions.items())
            if number in (None, each)
        )

    def acquire(self, number: int | None = None) -> tuple[Version, SavedModel]:
        """Finds a version for a request, which has to release it.

        Args:
            number: The version; None for the latest that is available.

        Raises:
            ServingError: If it is not available.
        """
        numbers = sorted(self._versions, reverse=True) if number is None else [number]
        for each in numbers:
            version = self._versions.get(each)
            model = version.acquire() if version else None
            if version and model:
                return version, model
        which = "Latest" if number is None else "Specific"
        asked = self.config.name if number is None else f"{self.config.name}, {number}"
        raise ServingError(
            grpc.StatusCode.NOT_FOUND,
            f"Servable not found for request: {which}({asked})",
        )

    def statuses(self, number: int | None = None) -> list[Status]:
        """Returns the state of one version or of all, the latest first.

        Raises:
            ServingError: If there has never been such a version.
        """
        versions = dict(sorted(self._versions.items(), reverse=True))
        if number is not None:
            versions = {n: v for n, v in versions.items() if n == number}
        if not versions:
            asked = "" if number is None else f" version {number} of"
            raise ServingError(
                grpc.StatusCode.NOT_FOUND,
                f"Could not find any versions of{asked} model {self.config.name}",
            )
        return [version.status() for version in versions.values()]
