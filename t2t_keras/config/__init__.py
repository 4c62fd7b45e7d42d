"""Configurations of models and training, and presets of both."""

from t2t_keras.config.presets import PRESETS, Preset
from t2t_keras.config.training_config import TrainingConfig
from t2t_keras.config.transformer_config import TransformerConfig

__all__ = ["PRESETS", "Preset", "TrainingConfig", "TransformerConfig"]
