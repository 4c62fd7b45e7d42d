"""The order of the training batches, and positions in it."""

import threading
from typing import NamedTuple

import numpy as np

from t2t_keras.data.batching import Batching


class DataPosition(NamedTuple):
    """Position of a run in the sequence of training batches.

    Attributes:
        epoch: Number of completed epochs.
        batch: Number of completed global batches in the current epoch.
    """

    epoch: int = 0
    batch: int = 0


START = DataPosition()
"""The start of epoch 0."""


class BatchOrder:
    """The global batches of all epochs, in training order.

    The order is a function of the lengths and the random seed. A run that knows its
    position and counts its steps knows the batch of each step, so batches carry no
    position. The plan of the latest epoch is cached: the dataset and the training loop
    use it from different threads.

    Args:
        batching: Settings for forming global batches.
        lengths: `[n, 2]` integer, source and target tokens of each pair.
        shuffle: Whether to shuffle. Default True.
    """

    def __init__(
        self, batching: Batching, lengths: np.ndarray, shuffle: bool = True
    ) -> None:
        self.batching = batching
        self.lengths = lengths
        self._shuffle = shuffle
        self._lock = threading.Lock()
        self._planned: tuple[int, list[np.ndarray]] = (-1, [])
        self._sizes: dict[int, int] = {}

    def batches(self, epoch: int) -> list[np.ndarray]:
        """Returns the indices of each global batch's pairs, as `global_batches`."""
        with self._lock:
            planned, batches = self._planned
            if planned != epoch:
                batches = self.batching.global_batches(
                    self.lengths, epoch, self._shuffle
                )
                self._planned = epoch, batches
                self._sizes[epoch] = len(batches)
            return batches

    def size(self, epoch: int) -> int:
        """Returns the number of global batches of an epoch."""
        if epoch not in self._sizes:
            self.batches(epoch)
        return self._sizes[epoch]

    def after(self, position: DataPosition) -> DataPosition:
        """Returns the position after one more batch."""
        done = position.batch + 1
        if done >= self.size(position.epoch):
            return DataPosition(position.epoch + 1, 0)
        return DataPosition(position.epoch, done)

    def epochs(self, position: DataPosition) -> float:
        """Returns the number of epochs completed at a position, with fractions."""
        if not position.batch:
            return float(position.epoch)
        return position.epoch + position.batch / self.size(position.epoch)
