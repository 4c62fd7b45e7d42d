"""What a training has to have in common with the one that a directory belongs to."""

from pathlib import Path
from typing import Any

from t2t_keras.config import TrainingConfig, TransformerConfig
from t2t_keras.data.preparation import PreparedData
from t2t_keras.errors import UserError


def check_same_training(
    path: Path,
    manifest: dict[str, Any],
    there: tuple[TransformerConfig, TrainingConfig],
    wanted: tuple[TransformerConfig, TrainingConfig],
    data: PreparedData,
) -> None:
    """Makes sure that a training is the one that a model directory belongs to.

    Args:
        path: The directory.
        manifest: That of the data that its model was trained on.
        there: The configurations of its model and training.
        wanted: Those of the training that is to begin or to be resumed.
        data: What is to be trained on.

    Raises:
        UserError: If vocabulary, training data, or a value that decides what is
            computed differ.
    """
    trained_with = manifest["vocabulary_fingerprint"]
    if trained_with != data.tokenizers.fingerprint:
        raise UserError(
            f"{data.data_dir} was prepared with another vocabulary "
            f"({data.tokenizers.fingerprint}) than the model in {path} was "
            f"trained with ({trained_with}). Prepare the data with "
            f"--vocabulary_from={path}, or choose another --model_dir."
        )
    if manifest["splits"]["train"] != data.manifest["splits"]["train"]:
        raise UserError(
            f"{data.data_dir} holds other training data than the model in "
            f"{path} was trained on. Choose another --model_dir."
        )
    resumable = TrainingConfig.resumable_names()
    differences = [
        f"{name} is {getattr(old, name)!r} there and {getattr(new, name)!r} here"
        for old, new in zip(there, wanted, strict=True)
        for name in new.field_names()
        if name not in resumable and getattr(old, name) != getattr(new, name)
    ]
    if differences:
        raise UserError(
            f"{path} holds a model of other arguments: "
            f"{'; '.join(differences)}. Choose another --model_dir."
        )
