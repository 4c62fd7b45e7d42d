"""The training text that a vocabulary is learned from."""

from collections.abc import Iterator, Sequence

import numpy as np

from t2t_keras.data.corpora import Pair
from t2t_keras.data.text_blocks import TextBlock


def vocabulary_text(blocks: Sequence[TextBlock], maximum: int) -> Iterator[Pair]:
    """Yields all pairs, or about `maximum` of them, chosen by a hash of their number.

    The choice does not depend on the order in which blocks are read.
    """
    total = sum(int(block.mask().sum()) for block in blocks)
    first = 0
    for block in blocks:
        mask = block.mask()
        if total > maximum:
            numbers = np.arange(first, first + block.pairs, dtype=np.uint64)
            mask &= _uniform(numbers) < maximum / total
        for sources, targets in block.read_chunks(mask):
            yield from zip(sources, targets, strict=True)
        first += block.pairs


def _uniform(numbers: np.ndarray) -> np.ndarray:
    """Returns a pseudorandom number in [0, 1) for each integer (SplitMix64)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))) / 2.0**64
