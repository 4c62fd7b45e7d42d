"""Flags of the hyper-parameters of the model and its training."""

from t2t_keras.config import PRESETS, TrainingConfig, TransformerConfig
from t2t_keras.flags.from_config import define


def set_by_presets(name: str) -> bool:
    """Returns whether a field of the training configuration differs among presets."""
    values = {repr(getattr(preset.training, name)) for preset in PRESETS.values()}
    return len(values) > 1


MODEL = [name for name in TransformerConfig.flag_names() if name != "seed"]
"""Names of the flags of the model."""

TRAINING = [
    name
    for name in TrainingConfig.flag_names()
    if name not in TrainingConfig.resumable_names() or set_by_presets(name)
]
"""Names of the flags of training that affect the result or are part of a preset."""

define(TransformerConfig, MODEL, __name__)
define(TrainingConfig, TRAINING, __name__)
