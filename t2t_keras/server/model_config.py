"""What a server is told to serve: ModelServerConfig, checked."""

from collections.abc import Iterable
from pathlib import Path

import grpc
from tensorflow_serving.config.model_server_config_pb2 import (
    ModelConfig,
    ModelServerConfig,
)

from t2t_keras.server.serving_errors import ServingError, invalid


def one_model(name: str, base_path: str) -> ModelServerConfig:
    """Returns the configuration of a single model, its latest version served."""
    config = ModelServerConfig()
    config.model_config_list.config.add(
        name=name, base_path=base_path, model_platform="tensorflow"
    )
    return config


def checked_models(config: ModelServerConfig) -> dict[str, ModelConfig]:
    """Returns the models of a configuration by name.

    Raises:
        ServingError: If it cannot be served, whatever is in the directories.
    """
    if config.WhichOneof("config") != "model_config_list":
        raise invalid("A configuration is a model_config_list.")
    models = list(config.model_config_list.config)
    by_name = {model.name: model for model in models}
    if len(by_name) < len(models) or "" in by_name:
        raise invalid("Each model has a name of its own.")
    for name, model in by_name.items():
        if not model.base_path:
            raise invalid(f"Model {name} has no base_path.")
        if model.model_platform not in ("", "tensorflow"):
            raise invalid(
                f"The platform of a model is tensorflow. Received: "
                f"{model.model_platform!r}"
            )
        resolved(model.base_path)
    return by_name


def resolved(path: str) -> Path:
    """Returns a path without links and dots.

    Raises:
        ServingError: If it can be no path.
    """
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise invalid(f"{path!r} is no path: {error}") from error


def check_inside(models: Iterable[ModelConfig], roots: Iterable[Path]) -> None:
    """Holds base paths to directories that a server may read.

    Args:
        models: What a client asks for.
        roots: The directories, of `resolved`.

    Raises:
        ServingError: If one lies outside.
    """
    for model in models:
        path = resolved(model.base_path)
        if not any(path.is_relative_to(root) for root in roots):
            raise ServingError(
                grpc.StatusCode.PERMISSION_DENIED,
                f"The base path {model.base_path!r} lies outside the directories that "
                "this server was started with.",
            )
