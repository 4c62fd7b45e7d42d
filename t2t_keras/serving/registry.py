"""The models that a server has: found by name, and kept up to date."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import grpc
from tensorflow_serving.apis.model_pb2 import ModelSpec
from tensorflow_serving.config.model_server_config_pb2 import (
    ModelConfig,
    ModelServerConfig,
)

from t2t_keras.serving.errors import ServingError, invalid
from t2t_keras.serving.metrics import Metrics
from t2t_keras.serving.saved_model import SavedModel
from t2t_keras.serving.versions import Status, Version, VersionedModel


def one_model(name: str, base_path: str) -> ModelServerConfig:
    """Returns the configuration of a single model, its latest version served."""
    config = ModelServerConfig()
    config.model_config_list.config.add(
        name=name, base_path=base_path, model_platform="tensorflow"
    )
    return config


class Registry:
    """Looks for versions, loads and unloads them, and finds them for requests.

    A name or a label that a client sends is only ever looked up among those of the
    configuration; no path is made of it.

    Args:
        config: The models.
        metrics: Where loading is counted.
        poll_seconds: How often to look for new versions. Default 1.
        labels_before_versions: Whether a new label may be given to a version that is
            not available yet. Default False, as in TensorFlow Serving.
        reload_dirs: Directories whose subdirectories `reload` may name as base paths,
            beside those of `config`. Default none.
        report: Is told of what happens, a line at a time.
        enable_batching: Whether requests of several clients may be answered in one
            batch. Default: by the versions that say that their rows are independent,
            as this project's exports do.

    Raises:
        ValueError: If the configuration is wrong.
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
    ) -> None:
        self._metrics = metrics
        self._poll_seconds = poll_seconds
        self._labels_before_versions = labels_before_versions
        self._report = report
        self._enable_batching = enable_batching
        self._models: dict[str, VersionedModel] = {}
        # One thread at a time changes models; requests only read them.
        self._changing = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        paths = [*reload_dirs, *(model.base_path for model in _models_of(config))]
        self._roots = {Path(path).resolve() for path in paths}
        try:
            self._apply(config)
        except ServingError as error:
            raise ValueError(error.message) from error

    def start(self) -> None:
        """Loads what there is, and goes on looking in a thread."""
        self._update()
        self._thread.start()

    def stop(self) -> None:
        """Stops looking and unloads all models."""
        self._stopping.set()
        self._thread.join()
        for model in self._models.values():
            model.unload()

    def _poll(self) -> None:
        while not self._stopping.wait(self._poll_seconds):
            self._update()

    def _update(self) -> None:
        with self._changing:
            for model in list(self._models.values()):
                try:
                    model.update()
                except Exception as error:
                    # Such as a file system that fails for a while. What is loaded is
                    # served, and other models are looked after.
                    self._report(f"{model.config.name}: {error}")

    @property
    def names(self) -> list[str]:
        """The names of the models."""
        return sorted(self._models)

    def is_ready(self) -> bool:
        """Tells whether every model has an available version."""
        return bool(self._models) and not self._unavailable()

    def _unavailable(self) -> list[str]:
        models = dict(self._models)
        return [name for name, model in models.items() if not model.is_available()]

    def reload(self, config: ModelServerConfig) -> None:
        """Replaces the configuration, and loads what it asks for.

        Args:
            config: All models from now on. Their base paths lie in those that the
                server was started with, or in `reload_dirs`: a client may not have it
                read other files.

        Raises:
            ServingError: If the configuration is wrong, and nothing changes; or if a
                model has no version that can be loaded.
        """
        for model in _models_of(config):
            path = Path(model.base_path).resolve()
            if not any(path.is_relative_to(root) for root in self._roots):
                raise ServingError(
                    grpc.StatusCode.PERMISSION_DENIED,
                    f"The base path {model.base_path!r} lies outside the directories "
                    "that this server was started with.",
                )
        with self._changing:
            self._apply(config)
        self._update()
        missing = self._unavailable()
        if missing:
            raise ServingError(
                grpc.StatusCode.UNKNOWN, f"Not available after loading: {missing}."
            )

    def _apply(self, config: ModelServerConfig) -> None:
        if config.WhichOneof("config") != "model_config_list":
            raise invalid("A configuration is a model_config_list.")
        new = {model.name: model for model in _models_of(config)}
        if len(new) < len(_models_of(config)) or "" in new:
            raise invalid("Each model has a name of its own.")
        for name, model in new.items():
            if not model.base_path:
                raise invalid(f"Model {name} has no base_path.")
            if model.model_platform not in ("", "tensorflow"):
                raise invalid(
                    f"The platform of a model is tensorflow. Received: "
                    f"{model.model_platform!r}"
                )
            self._check_labels(name, model)
        for name in set(self._models) - set(new):
            self._models.pop(name).unload()
        for name, model in new.items():
            there = self._models.get(name)
            if there and Path(there.config.base_path) == Path(model.base_path):
                there.config = model
                continue
            other = VersionedModel(
                model, self._metrics, self._report, self._enable_batching
            )
            if there:  # It answers until the other one can.
                other.update()
            self._models[name] = other
            if there:
                there.unload()

    def _check_labels(self, name: str, model: ModelConfig) -> None:
        """A label may only go to a version that can be asked at once."""
        there = self._models.get(name)
        for label, version in model.version_labels.items():
            is_new = there is None or label not in there.config.version_labels
            if is_new and self._labels_before_versions:
                continue
            if there is None or not there.is_available(version):
                raise ServingError(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    f"The label {label!r} of {name} is for version {version}, which is "
                    "not available yet. Load it first, or allow labels for "
                    "unavailable models.",
                )

    def acquire(self, spec: ModelSpec) -> tuple[Version, SavedModel]:
        """Finds the version that a request asks for, which has to release it.

        Raises:
            ServingError: If there is none.
        """
        model = self._model(spec)
        return model.acquire(self._number(model, spec))

    def statuses(self, spec: ModelSpec) -> list[Status]:
        """Returns the states of a model's versions.

        Raises:
            ServingError: If there is no such model or version.
        """
        model = self._model(spec)
        return model.statuses(self._number(model, spec))

    def _model(self, spec: ModelSpec) -> VersionedModel:
        if not spec.name:
            raise invalid("Missing ModelSpec: the request names no model.")
        model = self._models.get(spec.name)
        if model is None:
            raise ServingError(
                grpc.StatusCode.NOT_FOUND,
                f"Servable not found for request: Latest({spec.name})",
            )
        return model

    @staticmethod
    def _number(model: VersionedModel, spec: ModelSpec) -> int | None:
        """Returns the version that is asked for; None for the latest."""
        choice = spec.WhichOneof("version_choice")
        if choice == "version":
            return int(spec.version.value)
        if choice == "version_label":
            labels = model.config.version_labels
            if spec.version_label not in labels:
                raise invalid(
                    f"Unrecognized servable version label: {spec.version_label}"
                )
            return int(labels[spec.version_label])
        return None


def _models_of(config: ModelServerConfig) -> list[ModelConfig]:
    return list(config.model_config_list.config)
