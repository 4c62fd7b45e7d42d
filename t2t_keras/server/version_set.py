"""The versions of one model and their states."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import grpc
from tensorflow_serving.config.model_server_config_pb2 import ModelConfig

from t2t_keras.export.version_dirs import is_version, versions_of
from t2t_keras.server.memory_release import give_back_memory
from t2t_keras.server.model_version import Status, Version
from t2t_keras.server.prometheus import Metrics
from t2t_keras.server.saved_model import SavedModel
from t2t_keras.server.serving_errors import ServingError


class VersionedModel:
    """A model of the server's configuration, and its versions.

    One thread calls `update` and other methods that change it; any thread may send
    requests. Each version is loaded and closed in a thread of its own.

    Args:
        config: A ModelConfig.
        metrics: Prometheus metrics.
        report: Called with each line of the log.
        changed: Called, from any thread, when `update` has something to do.
        slots: Context that each thread enters while it loads, to limit their number.
        enable_batching: See `Version`.
    """

    def __init__(
        self,
        config: ModelConfig,
        metrics: Metrics,
        report: Callable[[str], None],
        changed: Callable[[], None],
        slots: AbstractContextManager[object],
        enable_batching: bool | None = None,
    ) -> None:
        self.config = config
        self._metrics = metrics
        self._report = report
        self._changed = changed
        self._slots = slots
        self._enable_batching = enable_batching
        self._versions: dict[int, Version] = {}
        self._threads: dict[Version, threading.Thread] = {}
        # Requested versions found by the last search, and its error message.
        self._requested: dict[int, Path] = {}
        self._problem = ""

    def find_versions(self) -> None:
        """Finds the requested versions and reports each problem once."""
        try:
            self._requested, problem = self._find_requested()
        except OSError as error:
            # For example a temporary file system failure. Loaded versions are kept.
            problem = str(error)
        if problem and problem != self._problem:
            self._report(f"{self.config.name}: {problem}")
        self._problem = problem

    def _find_requested(self) -> tuple[dict[int, Path], str]:
        """Returns the versions that the policy requests, and a problem if there is one.

        Raises:
            OSError: If the base path cannot be read.
        """
        base = Path(self.config.base_path)
        existing = versions_of(base)
        policy = self.config.model_version_policy
        if not existing:
            return {}, _missing_versions_hint(base)
        if policy.HasField("all"):
            return existing, ""
        if policy.HasField("specific"):
            requested = sorted(set(policy.specific.versions))
            missing = [number for number in requested if number not in existing]
            available = {n: existing[n] for n in requested if n in existing}
            problem = (
                f"{base} has the versions {list(existing)}, but not {missing}, which "
                "model_version_policy requests."
            )
            return available, problem if missing else ""
        number = policy.latest.num_versions or 1
        return {n: existing[n] for n in list(existing)[-number:]}, ""

    def update(self) -> None:
        """Starts to load new versions and to unload those no longer requested.

        An old version is unloaded only once a requested one is available, so that one
        is always available.
        """
        self._forget()
        for number, path in self._requested.items():
            current = self._versions.get(number)
            if current and current.may_retry():
                current.retry()
            elif current is None or (current.state == Status.END and not current.error):
                current = self._versions[number] = Version(
                    number, path, self._enable_batching, self._changed
                )
            else:
                continue
            self._report(f"{self._title(current)} is being loaded ...")
            self._start(self._load, current)
        outdated = [v for n, v in self._versions.items() if n not in self._requested]
        for version in outdated:
            version.cancel()
        if self.has_requested():
            for version in outdated:
                if version.is_available:
                    self._report(f"{self._title(version)} is being unloaded ...")
                    version.unload()
        self._close_idle()

    def _close_idle(self) -> None:
        for version in self._versions.values():
            if version.is_idle and version not in self._threads:
                self._start(self._close, version)

    def _forget(self) -> None:
        """Drops ended versions whose directories no longer exist."""
        for number, version in list(self._versions.items()):
            if version.state == Status.END and not version.path.is_dir():
                del self._versions[number]
        for version, thread in list(self._threads.items()):
            if not thread.is_alive():
                del self._threads[version]

    def _start(self, work: Callable[[Version], None], version: Version) -> None:
        # Daemon: an uninterruptible operation must not delay the exit.
        thread = threading.Thread(target=work, args=[version], daemon=True)
        self._threads[version] = thread
        thread.start()

    def _load(self, version: Version) -> None:
        with self._slots:
            version.load(self._metrics)
        if version.error:
            message = f"cannot be loaded: {version.error.message}"
        elif not version.is_available:
            message = "is no longer requested; loading was cancelled."
        else:
            message = "is available."
            if self._enable_batching is None and not version.joins_requests:
                message += (
                    " It is not marked as having independent rows: each request runs "
                    "alone. Export the model again with t2t-export to mark it, or use "
                    "--enable_batching to batch the requests of all models."
                )
        self._report(f"{self._title(version)} {message}")
        if not version.is_available:
            give_back_memory()
        self._changed()

    def _close(self, version: Version) -> None:
        version.close()
        give_back_memory()
        self._report(f"{self._title(version)} is closed; its memory is freed.")
        self._changed()

    def _title(self, version: Version) -> str:
        return f"{self.config.name}: version {version.number}"

    def unload(self) -> None:
        """Unloads all versions and cancels loading."""
        self._requested = {}
        for version in self._versions.values():
            version.cancel()
            version.unload()

    def has_ended(self) -> bool:
        """Closes idle versions; returns whether all unloaded versions have ended."""
        self._forget()
        self._close_idle()
        return not self._threads and all(
            version.state == Status.END for version in self._versions.values()
        )

    def join(self, deadline: float) -> bool:
        """Waits until all versions have ended. Call it after `unload`.

        Args:
            deadline: Time limit, on the clock of `time.monotonic`.

        Returns:
            Whether all have ended.
        """
        self.has_ended()
        for thread in self._threads.values():
            thread.join(max(deadline - time.monotonic(), 0))
        return self.has_ended()

    def is_loading(self) -> bool:
        """Returns whether the outcome of loading a requested version is still open."""
        versions = [self._versions.get(number) for number in self._requested]
        return not all(v and (v.is_available or v.error) for v in versions)

    def is_available(self, number: int | None = None) -> bool:
        """Returns whether a version, or any version, is available."""
        return any(
            version.is_available
            for each, version in list(self._versions.items())
            if number in (None, each)
        )

    def has_requested(self) -> bool:
        """Returns whether a requested version is available."""
        return any(self.is_available(number) for number in self._requested)

    def why_unavailable(self) -> str:
        """Returns why no version is available."""
        errors = [
            f"version {version.number}: {version.error.message}"
            for version in self._versions.values()
            if version.error
        ]
        return "; ".join(errors) or self._problem

    def acquire(self, number: int | None = None) -> tuple[Version, SavedModel]:
        """Returns a version for a request; the caller must release it.

        Args:
            number: Version number; None for the latest available version.

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
        requested = (
            self.config.name if number is None else f"{self.config.name}, {number}"
        )
        raise ServingError(
            grpc.StatusCode.NOT_FOUND,
            f"Servable not found for request: {which}({requested})",
        )

    def statuses(self, number: int | None = None) -> list[Status]:
        """Returns the state of one version or of all, the latest first.

        Raises:
            ServingError: If the version has never existed.
        """
        versions = dict(sorted(self._versions.items(), reverse=True))
        if number is not None:
            versions = {n: v for n, v in versions.items() if n == number}
        if not versions:
            requested = "" if number is None else f" version {number} of"
            raise ServingError(
                grpc.StatusCode.NOT_FOUND,
                f"Could not find any versions of{requested} model {self.config.name}",
            )
        return [version.status() for version in versions.values()]


def _missing_versions_hint(base: Path) -> str:
    """Explains why a base path has no versions."""
    if not base.is_dir():
        return f"there is no directory {base}."
    if not is_version(base):
        return (
            f"{base} has no versions: a version is a subdirectory whose name is a "
            f"number, such as {base / '1'}."
        )
    if base.name.isdecimal():
        return (
            f"{base} is itself a version and has no versions below it. Use its parent "
            f"directory as the base path: {base.parent}"
        )
    return (
        f"{base} is itself a SavedModel and has no versions below it. Move it to a "
        f"subdirectory whose name is a number: {base / '1'}"
    )
