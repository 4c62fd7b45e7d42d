"""The hyper-parameters of the model and of its training."""

from t2t_keras.config import PRESETS, TrainingConfig, TransformerConfig
from t2t_keras.flags.config_flags import define


def set_by_presets(name: str) -> bool:
    """Tells whether presets have different values of a field of the training."""
    values = {repr(getattr(preset.training, name)) for preset in PRESETS.values()}
    return len(values) > 1


MODEL = [name for name in TransformerConfig.flag_names() if name != "seed"]
"""Flags of the model."""

TRAINING = [
    name
    for name in TrainingConfig.flag_names()
    if name not in TrainingConfig.resumable_names() or set_by_presets(name)
]
"""Flags of its training: what decides the result, or is part of a preset."""

define(TransformerConfig, MODEL, __name__)
define(TrainingConfig, TRAINING, __name__)
