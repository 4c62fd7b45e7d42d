"""What a training has to have in common with the one that a directory belongs to."""

from pathlib import Path
from typing import Any

from t2t_keras.data.preparation import PreparedData
from t2t_keras.errors import UserError


def check_same_training(
    path: Path,
    config: dict[str, Any],
    model: dict[str, Any],
    training: dict[str, Any],
    data: PreparedData,
) -> None:
    """Makes sure that a training is the one that a model directory belongs to.

    Args:
        path: The directory.
        config: Its configuration.
        model: The arguments of `Transformer`.
        training: Everything else that decides what is computed.
        data: What is trained on.

    Raises:
        UserError: If vocabulary, training data, or an argument differ.
    """
    trained_with = config["data"]["vocabulary_fingerprint"]
    if trained_with != data.tokenizers.fingerprint:
        raise UserError(
            f"{data.data_dir} was prepared with another vocabulary "
            f"({data.tokenizers.fingerprint}) than the model in {path} was "
            f"trained with ({trained_with}). Prepare the data with "
            f"--vocabulary_from={path}, or choose another --model_dir."
        )
    if config["data"]["splits"]["train"] != data.manifest["splits"]["train"]:
        raise UserError(
            f"{data.data_dir} holds other training data than the model in "
            f"{path} was trained on. Choose another --model_dir."
        )
    differences = [
        f"{name} is {there.get(name)!r} there and {value!r} here"
        for there, wanted in (
            (config["model"], model),
            (config["training"], training),
        )
        for name, value in wanted.items()
        if there.get(name) != value
    ]
    if differences:
        raise UserError(
            f"{path} holds a model of other arguments: "
            f"{'; '.join(differences)}. Choose another --model_dir."
        )
