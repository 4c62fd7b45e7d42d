"""Checks that a resumed training matches the one that a model directory belongs to."""

from pathlib import Path
from typing import Any

from t2t_keras.config import TrainingConfig, TransformerConfig
from t2t_keras.data.prepared_data import PreparedData
from t2t_keras.errors import UserError

_COUNTS = ("pairs", "source_tokens", "target_tokens", "removed")
"""Entries of a split in the manifest of data that do not depend on their format."""


def check_same_training(
    path: Path,
    manifest: dict[str, Any],
    there: tuple[TransformerConfig, TrainingConfig],
    wanted: tuple[TransformerConfig, TrainingConfig],
    data: PreparedData,
) -> None:
    """Checks that a training matches the one that a model directory belongs to.

    Args:
        path: The model directory.
        manifest: Manifest of the data that its model was trained on.
        there: Its model and training configurations.
        wanted: Configurations of the training to start or resume.
        data: Data of the training to start or resume.

    Raises:
        UserError: If the vocabulary, the training data, or a setting that affects the
            result differs.
    """
    trained_with = manifest["vocabulary_fingerprint"]
    if trained_with != data.tokenizers.fingerprint:
        raise UserError(
            f"{data.data_dir} was prepared with another vocabulary "
            f"({data.tokenizers.fingerprint}) than the model in {path} was "
            f"trained with ({trained_with}). Prepare the data with "
            f"--vocabulary_from={path}, or choose another --model_dir."
        )
    trained_on, given = (
        {name: one["splits"]["train"].get(name) for name in _COUNTS}
        for one in (manifest, data.manifest)
    )
    if trained_on != given:
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
            f"{path} holds a model with other hyper-parameters: "
            f"{'; '.join(differences)}. Choose another --model_dir."
        )
