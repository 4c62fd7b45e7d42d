"""Filters for training text. Nothing here imports TensorFlow."""

from t2t_keras.data.filters.catalog import apply_filters, make_filters
from t2t_keras.data.filters.keys import HeldOutKeys, keys
from t2t_keras.data.filters.report import Example, FilterReport
from t2t_keras.data.filters.text_filter import TextFilter

__all__ = [
    "Example",
    "FilterReport",
    "HeldOutKeys",
    "TextFilter",
    "apply_filters",
    "keys",
    "make_filters",
]
