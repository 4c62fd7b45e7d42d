"""The hyper-parameters of the model and of its training."""

from t2t_keras.config import PRESETS, TrainingConfig, TransformerConfig
from t2t_keras.flags.config_flags import define


def _of_training() -> list[str]:
    """Returns the fields that decide what is computed, or that presets set."""
    names = set(TrainingConfig.field_names()) - set(TrainingConfig.resumable_names())
    for name in TrainingConfig.field_names():
        values = {repr(getattr(preset.training, name)) for preset in PRESETS.values()}
        if len(values) > 1:
            names.add(name)
    return [name for name in TrainingConfig.flag_names() if name in names]


MODEL = [name for name in TransformerConfig.flag_names() if name != "seed"]
"""Flags of the model."""
TRAINING = _of_training()
"""Flags of its training."""

define(TransformerConfig, MODEL, __name__)
define(TrainingConfig, TRAINING, __name__)
