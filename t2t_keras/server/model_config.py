"""Validation of a ModelServerConfig: the models to serve."""

from collections.abc import Iterable
from pathlib import Path

import grpc
from tensorflow_serving.config.model_server_config_pb2 import (
    ModelConfig,
    ModelServerConfig,
)

from t2t_keras.server.serving_errors import ServingError, invalid


def single_model_config(name: str, base_path: str) -> ModelServerConfig:
    """Returns the configuration of a single model that serves its latest version."""
    config = ModelServerConfig()
    config.model_config_list.config.add(
        name=name, base_path=base_path, model_platform="tensorflow"
    )
    return config


def validate_models(config: ModelServerConfig) -> dict[str, ModelConfig]:
    """Returns the models of a configuration by name.

    Raises:
        ServingError: If it is invalid, whatever the directories contain.
    """
    if config.WhichOneof("config") != "model_config_list":
        raise invalid("The configuration must be a model_config_list.")
    models = list(config.model_config_list.config)
    by_name = {model.name: model for model in models}
    if len(by_name) < len(models) or "" in by_name:
        raise invalid("Each model must have a unique name.")
    for name, model in by_name.items():
        if not model.base_path:
            raise invalid(f"Model {name} has no base_path.")
        if model.model_platform not in ("", "tensorflow"):
            raise invalid(
                f"The platform of a model must be tensorflow. Received: "
                f"{model.model_platform!r}"
            )
        resolve_path(model.base_path)
    return by_name


def resolve_path(path: str) -> Path:
    """Returns a path without links and dots.

    Raises:
        ServingError: If it is not a valid path.
    """
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise invalid(f"{path!r} is not a valid path: {error}") from error


def check_inside(models: Iterable[ModelConfig], roots: Iterable[Path]) -> None:
    """Checks that base paths lie inside the directories that a server may read.

    Args:
        models: Models that a client requests.
        roots: Allowed directories, returned by `resolve_path`.

    Raises:
        ServingError: If a base path lies outside.
    """
    for model in models:
        path = resolve_path(model.base_path)
        if not any(path.is_relative_to(root) for root in roots):
            raise ServingError(
                grpc.StatusCode.PERMISSION_DENIED,
                f"The base path {model.base_path!r} lies outside the directories that "
                "this server was started with.",
            )
