"""Tensors of a foreign file, taken by name."""

from collections.abc import Collection
from pathlib import Path

import numpy as np

from t2t_keras.errors import UserError

MAX_SIZE = 2**53
"""Limit of every size and number in a configuration."""


class Tensors:
    """Tensors of a foreign file, taken by name.

    Args:
        path: The file or directory, for messages.
        tensors: The tensors by name.
    """

    def __init__(self, path: Path, tensors: dict[str, np.ndarray]) -> None:
        self._path = path
        self._tensors = tensors
        self._remaining = {*tensors}

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(tensor.size for tensor in self._tensors.values())

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, *shape: int) -> np.ndarray:
        """Returns a tensor as float32.

        Args:
            name: Name of the tensor.
            *shape: The shape that it must have.

        Raises:
            UserError: If the file lacks the tensor, or it has another shape.
        """
        self._remaining.discard(name)
        found = self._tensors.get(name)
        if found is None or found.shape != shape:
            received = "nothing" if found is None else f"shape {found.shape}"
            raise UserError(
                f"{self._path}: the tensor {name} must have shape {shape}. Received: "
                f"{received}"
            )
        return found.astype(np.float32)

    def check_all_taken(self, but: Collection[str] = ()) -> None:
        """Checks that every tensor has been used.

        Args:
            but: Ends of the names of tensors that need not be used. Default none.

        Raises:
            UserError: If there are tensors that the architecture does not have.
        """
        unused = sorted(n for n in self._remaining if not n.endswith(tuple(but)))
        if unused:
            raise UserError(
                f"{self._path}: the tensors {', '.join(unused)} are not supported."
            )
