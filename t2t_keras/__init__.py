"""The Transformer of "Attention Is All You Need" for TensorFlow and Keras 3.

The public names are imported at their first use, so that the command line can
answer `--help` without loading TensorFlow.
"""

import importlib
from typing import Any

from t2t_keras.keras_backend import require_tensorflow

__version__ = "0.1.0"

_MODULES = {
    "Transformer": "transformer",
    "Translator": "decoding.translator",
    "ConcatenatedSinusoidalPosition": "layers",
    "CrossAttention": "layers",
    "Decoder": "layers",
    "DecoderLayer": "layers",
    "Dropout": "layers",
    "Encoder": "layers",
    "EncoderLayer": "layers",
    "FeedForward": "layers",
    "LayerNorm": "layers",
    "LearnedPosition": "layers",
    "Linear": "layers",
    "MarianSinusoidalPosition": "layers",
    "MultiHeadAttention": "layers",
    "OutputWeights": "layers",
    "Residual": "layers",
    "SSRU": "layers",
    "SelfAttention": "layers",
    "SharedEmbedding": "layers",
    "SinusoidalPosition": "layers",
    "causal_mask": "layers",
    "padding_mask": "layers",
    "scaled_dot_product_attention": "layers",
    "sinusoidal_encoding": "layers",
    "train": "training_run.train",
    "window_mask": "layers",
    "windowed_attention": "layers",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_tensorflow()
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
