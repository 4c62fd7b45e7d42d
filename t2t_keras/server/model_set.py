"""The served models: those of the current configuration, by name."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import grpc
from tensorflow_serving.apis.model_pb2 import ModelSpec
from tensorflow_serving.config.model_server_config_pb2 import ModelConfig

from t2t_keras.server.model_version import Status, Version
from t2t_keras.server.saved_model import SavedModel
from t2t_keras.server.serving_errors import ServingError, invalid
from t2t_keras.server.version_set import VersionedModel


class ModelSet:
    """The models of a configuration, and those of earlier ones until they are unloaded.

    One thread applies configurations and calls `update`; any thread may send requests.

    Args:
        make: Creates a model from its configuration.
        labels_before_versions: Whether a new label may be assigned to a version that is
            not available yet.
        report: Called with each line of the log.
    """

    def __init__(
        self,
        make: Callable[[ModelConfig], VersionedModel],
        labels_before_versions: bool,
        report: Callable[[str], None],
    ) -> None:
        self._make = make
        self._labels_before_versions = labels_before_versions
        self._report = report
        # Requests read it concurrently: it is replaced, never modified.
        self._models: Mapping[str, VersionedModel] = {}
        # Models that will take over a name once available, and models being unloaded.
        self._next: dict[str, VersionedModel] = {}
        self._ending: list[VersionedModel] = []

    def apply(self, new: Mapping[str, ModelConfig]) -> None:
        """Applies a configuration.

        A model whose base path changes serves its old versions until a version of the
        new path is available.

        Args:
            new: Models by name, returned by `validate_models`.

        Raises:
            ServingError: If a label cannot be assigned; nothing changes then.
        """
        for name, config in new.items():
            self._check_labels(name, config)
        for models in (self._models, self._next):
            self._ending += [m for name, m in models.items() if name not in new]
        self._next = {name: m for name, m in self._next.items() if name in new}
        self._models = {
            name: self._model_for(name, config) for name, config in new.items()
        }
        for model in self._ending:
            model.unload()

    def _model_for(self, name: str, config: ModelConfig) -> VersionedModel:
        """Returns the model that serves a name from now on."""
        current, later = self._models.get(name), self._next.pop(name, None)
        if current and _is_at(current, config):
            current.config = config
            self._ending += [later] if later else []
            return current
        if later and _is_at(later, config):
            later.config = config
        else:
            self._ending += [later] if later else []
            later = self._make(config)
        if current and current.is_available():
            self._next[name] = later
            return current
        self._ending += [current] if current else []
        return later

    def _check_labels(self, name: str, model: ModelConfig) -> None:
        """Checks that labels are assigned to available versions only."""
        current = self._models.get(name)
        for label, version in model.version_labels.items():
            is_new = current is None or label not in current.config.version_labels
            if is_new and self._labels_before_versions:
                continue
            if current is None or not current.is_available(version):
                raise ServingError(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    f"The label {label!r} of {name} is for version {version}, which is "
                    "not available yet. Load it first, or start the server with "
                    "--allow_version_labels_for_unavailable_models.",
                )

    def update(self, look_for_versions: bool) -> None:
        """Starts to load and unload versions as configured, without waiting.

        Args:
            look_for_versions: Whether to look for new versions.
        """
        for model in [*self._models.values(), *self._next.values()]:
            if look_for_versions:
                model.find_versions()
            model.update()
        for name, model in list(self._next.items()):
            if model.is_available() and not model.is_loading():
                self._report(f"{name}: now serving from {model.config.base_path}.")
                self._models[name].unload()
                self._ending.append(self._models[name])
                self._models = {**self._models, name: self._next.pop(name)}
        self._ending = [model for model in self._ending if not model.has_ended()]

    def unload_all(self) -> None:
        """Unloads all models and cancels all loading."""
        self.apply({})

    def join(self, deadline: float) -> bool:
        """Waits until the models that `unload_all` has unloaded are closed.

        Args:
            deadline: Time limit, on the clock of `time.monotonic`.

        Returns:
            Whether all are closed.
        """
        return all([model.join(deadline) for model in self._ending])

    def current_models(self, models: Mapping[str, ModelConfig]) -> list[VersionedModel]:
        """Returns the models of a configuration if it is still the current one.

        Raises:
            ServingError: If another configuration has replaced it.
        """
        current = [self._next.get(name) or self._models.get(name) for name in models]
        if [model and model.config for model in current] != list(models.values()):
            raise ServingError(
                grpc.StatusCode.ABORTED,
                "Another configuration replaced this one before its models were "
                "loaded.",
            )
        return [model for model in current if model]

    def unavailable_error(
        self, models: Sequence[VersionedModel]
    ) -> ServingError | None:
        """Returns the error for models without a requested version, or None."""
        missing = [model for model in models if not model.has_requested()]
        if not missing:
            return None
        names = [model.config.name for model in missing]
        reasons = [f"{m.config.name}: {m.why_unavailable()}" for m in missing]
        kept = [name for name in names if self._models[name].is_available()]
        if kept:
            reasons.append(f"Until then, earlier versions of {kept} are served")
        details = ". ".join(reason.rstrip(".") for reason in reasons)
        return ServingError(
            grpc.StatusCode.UNKNOWN, f"Not available after loading: {names}. {details}."
        )

    @property
    def names(self) -> list[str]:
        """Names of the models."""
        return sorted(self._models)

    def is_ready(self) -> bool:
        """Returns whether every model has an available version."""
        models = self._models.values()
        return bool(models) and all(model.is_available() for model in models)

    def acquire(self, spec: ModelSpec) -> tuple[Version, SavedModel]:
        """Returns the version for a request; the caller must release it.

        Raises:
            ServingError: If it is not available.
        """
        model = self._find(spec)
        return model.acquire(_number(model, spec))

    def statuses(self, spec: ModelSpec) -> list[Status]:
        """Returns the states of a model's versions.

        Raises:
            ServingError: If there is no such model or version.
        """
        model = self._find(spec)
        return model.statuses(_number(model, spec))

    def _find(self, spec: ModelSpec) -> VersionedModel:
        if not spec.name:
            raise invalid("Missing ModelSpec: the request names no model.")
        model = self._models.get(spec.name)
        if model is None:
            raise ServingError(
                grpc.StatusCode.NOT_FOUND,
                f"Servable not found for request: Latest({spec.name})",
            )
        return model


def _is_at(model: VersionedModel, config: ModelConfig) -> bool:
    return Path(model.config.base_path) == Path(config.base_path)


def _number(model: VersionedModel, spec: ModelSpec) -> int | None:
    """Returns the requested version number; None for the latest."""
    choice = spec.WhichOneof("version_choice")
    if choice == "version":
        return int(spec.version.value)
    if choice == "version_label":
        labels = model.config.version_labels
        if spec.version_label not in labels:
            raise invalid(f"Unrecognized servable version label: {spec.version_label}")
        return int(labels[spec.version_label])
    return None
