"""Symbolic calls of layers with several inputs or outputs."""

from typing import Any

import keras


class TracedOutputs:
    """Mixin: symbolic calls trace `call` and do not use `compute_output_shape`.

    `compute_output_shape` describes only the first output, given the first input. With
    attention scores or a cache there are more outputs, and the shapes of the other
    inputs must be checked too.
    """

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the outputs of a call as symbolic tensors."""
        return keras.Operation.compute_output_spec(self, *args, **kwargs)
