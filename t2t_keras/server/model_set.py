"""The models that are served: those of the configuration in force, found by name."""

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
    """The models of a configuration, and those of earlier ones until they end.

    One thread takes configurations and calls `update`; any thread may send requests.

    Args:
        make: Makes a model of its configuration.
        labels_before_versions: Whether a new label may be given to a version that is
            not available yet.
        report: Is told of what happens, a line at a time.
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
        # Requests read it meanwhile: it is replaced, never changed.
        self._models: Mapping[str, VersionedModel] = {}
        # Those that take over a model's name once they can answer, and those that end.
        self._next: dict[str, VersionedModel] = {}
        self._ending: list[VersionedModel] = []

    def take(self, new: Mapping[str, ModelConfig]) -> None:
        """Makes a configuration the one in force.

        A model whose base path changes is answered by the versions that it has until
        one of the new path is available.

        Args:
            new: The models by name, of `checked_models`.

        Raises:
            ServingError: If labels cannot be given as it asks, and nothing changes.
        """
        for name, config in new.items():
            self._check_labels(name, config)
        for models in (self._models, self._next):
            self._ending += [m for name, m in models.items() if name not in new]
        self._next = {name: m for name, m in self._next.items() if name in new}
        self._models = {name: self._taken(name, config) for name, config in new.items()}
        for model in self._ending:
            model.unload()

    def _taken(self, name: str, config: ModelConfig) -> VersionedModel:
        """Returns the model that answers under a name from now on."""
        there, later = self._models.get(name), self._next.pop(name, None)
        if there and _is_at(there, config):
            there.config = config
            self._ending += [later] if later else []
            return there
        if later and _is_at(later, config):
            later.config = config
        else:
            self._ending += [later] if later else []
            later = self._make(config)
        if there and there.is_available():
            self._next[name] = later
            return there
        self._ending += [there] if there else []
        return later

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

    def update(self, look: bool) -> None:
        """Begins what is to be loaded and unloaded, without waiting for it.

        Args:
            look: Whether to look for new versions.
        """
        for model in [*self._models.values(), *self._next.values()]:
            if look:
                model.look()
            model.update()
        for name, model in list(self._next.items()):
            if model.is_available() and not model.is_loading():
                self._report(f"{name}: from now on {model.config.base_path} is served.")
                self._models[name].unload()
                self._ending.append(self._models[name])
                self._models = {**self._models, name: self._next.pop(name)}
        self._ending = [model for model in self._ending if not model.is_over()]

    def end(self) -> None:
        """Unloads all models and ends all loading."""
        self.take({})

    def join(self, until: float) -> bool:
        """Waits until what `end` has ended is over.

        Args:
            until: How long, in the seconds of `time.monotonic`.

        Returns:
            Whether it is.
        """
        return all([model.join(until) for model in self._ending])

    def in_force(self, models: Mapping[str, ModelConfig]) -> list[VersionedModel]:
        """Returns the models of a configuration, to ask what became of them.

        Raises:
            ServingError: If another configuration has replaced it.
        """
        found = [self._next.get(name) or self._models.get(name) for name in models]
        if [model and model.config for model in found] != list(models.values()):
            raise ServingError(
                grpc.StatusCode.ABORTED,
                "Another configuration replaced this one before its models were "
                "loaded.",
            )
        return [model for model in found if model]

    def unavailable(self, models: Sequence[VersionedModel]) -> ServingError | None:
        """Returns what to say of those without a version that is asked for, if any."""
        missing = [model for model in models if not model.has_wanted()]
        if not missing:
            return None
        names = [model.config.name for model in missing]
        reasons = [f"{m.config.name}: {m.why_unavailable()}" for m in missing]
        kept = [name for name in names if self._models[name].is_available()]
        if kept:
            reasons.append(f"Until they are, earlier versions of {kept} answer")
        told = ". ".join(reason.rstrip(".") for reason in reasons)
        return ServingError(
            grpc.StatusCode.UNKNOWN, f"Not available after loading: {names}. {told}."
        )

    @property
    def names(self) -> list[str]:
        """The names of the models."""
        return sorted(self._models)

    def is_ready(self) -> bool:
        """Tells whether every model has an available version."""
        models = self._models.values()
        return bool(models) and all(model.is_available() for model in models)

    def acquire(self, spec: ModelSpec) -> tuple[Version, SavedModel]:
        """Finds the version that a request asks for, which has to release it.

        Raises:
            ServingError: If there is none.
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
    """Returns the version that is asked for; None for the latest."""
    choice = spec.WhichOneof("version_choice")
    if choice == "version":
        return int(spec.version.value)
    if choice == "version_label":
        labels = model.config.version_labels
        if spec.version_label not in labels:
            raise invalid(f"Unrecognized servable version label: {spec.version_label}")
        return int(labels[spec.version_label])
    return None
