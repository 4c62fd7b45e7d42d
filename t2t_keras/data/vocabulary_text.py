"""The training text that a vocabulary is learned from."""

from collections.abc import Iterator, Sequence

import numpy as np

from t2t_keras.data.corpora import Pair
from t2t_keras.data.pseudorandom import uniform
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
            mask &= uniform(numbers) < maximum / total
        for sources, targets in block.read_chunks(mask):
            yield from zip(sources, targets, strict=True)
        first += block.pairs
