"""Batches of sentence pairs of similar length, limited by a token budget (section 5.1).

The plan of an epoch assigns pairs to global batches and orders the batches. It needs
only the lengths of the pairs, and it depends only on the seed and the epoch. Any number
of replicas therefore takes the same steps, each replica reads only its own share, and
training can resume at any batch without reading the batches before it.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from t2t_keras.errors import UserError

_WINDOW_PAIRS = 1 << 20
"""Number of pairs sorted by length together. Limits the work before an epoch starts."""


def bucket_boundaries(longest: int) -> np.ndarray:
    """Returns the lengths that batches are padded to, four per doubling.

    Args:
        longest: Maximum length that must fit.

    Returns:
        Ascending integers: 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, ...
    """
    boundaries, step = [4, 8, 12, 16], 4
    while boundaries[-1] < longest:
        if boundaries[-1] == 8 * step:
            step *= 2
        boundaries.append(boundaries[-1] + step)
    return np.array(boundaries)


@dataclasses.dataclass(frozen=True)
class Part:
    """The part of a global batch that one replica processes in one forward pass.

    Attributes:
        indices: Indices of the examples; may be empty.
        rows: Number of rows of the padded tensors, at least 1 and `len(indices)`.
        source_length: Number of columns of the padded source.
        target_length: Number of columns of the padded target.
    """

    indices: np.ndarray
    rows: int
    source_length: int
    target_length: int


@dataclasses.dataclass(frozen=True)
class Batching:
    """Settings for forming global batches.

    Args:
        batch_tokens: Maximum number of positions on either side of a global batch,
            including padding. Default 25,000, as in the paper.
        batch_sentences: Maximum number of pairs in a global batch. Default None (no
            limit).
        pad_to_boundary: Whether to pad each part to a bucket boundary, with a fixed
            number of rows per boundary. This keeps the number of distinct shapes
            small, which XLA needs. Otherwise a part is as wide as its longest pair.
            Default False.
        seed: Random seed for the order. Default 0.

    Raises:
        UserError: If a limit is below 1, or the seed is negative.
    """

    batch_tokens: int = 25_000
    batch_sentences: int | None = None
    pad_to_boundary: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_tokens", "batch_sentences"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} must be at least 1. Received: {value}")
        if self.seed < 0:
            raise UserError(f"seed must be at least 0. Received: {self.seed}")

    def _widths(self, lengths: np.ndarray) -> np.ndarray:
        """Returns the width of each pair: the length of its longer side, padded."""
        longer = lengths.max(axis=1)
        if not self.pad_to_boundary or not len(longer):
            return longer
        boundaries = bucket_boundaries(int(longer.max()))
        return boundaries[np.searchsorted(boundaries, longer)]

    def _rows(self, width: int) -> int:
        """Returns the number of pairs of a given width that fit in a global batch."""
        rows = max(1, self.batch_tokens // width)
        return min(rows, self.batch_sentences or rows)

    def global_batches(
        self, lengths: np.ndarray, epoch: int, shuffle: bool = True
    ) -> list[np.ndarray]:
        """Plans the batches of an epoch.

        Shuffles the pairs, sorts them by the length of the longer side and then of
        the target (ties keep their random order), cuts a batch whenever the token
        budget is reached, and shuffles the batches.

        Args:
            lengths: `[n, 2]` integer, source and target tokens of every pair.
            epoch: Index of the epoch.
            shuffle: Whether to shuffle pairs and batches. Default True.

        Returns:
            The indices of the pairs in each global batch, shortest pair first. Every
            pair is in exactly one batch.
        """
        rng = np.random.default_rng([self.seed, epoch])
        # Half of the memory of the default type, in the same random order.
        order = np.arange(len(lengths), dtype=np.int32)
        if shuffle:
            rng.shuffle(order)
        widths = self._widths(lengths)
        batches = []
        for start in range(0, len(order), _WINDOW_PAIRS):
            window = order[start : start + _WINDOW_PAIRS]
            keys = lengths[window, 0], lengths[window, 1], widths[window]
            window = window[np.lexsort(keys)]
            batches += self._cut(window, widths[window])
        if shuffle:
            permutation = rng.permutation(len(batches))
            batches = [batches[i] for i in permutation]
        return batches

    def _cut(self, order: np.ndarray, widths: np.ndarray) -> list[np.ndarray]:
        """Cuts pairs sorted by width into batches within the token budget."""
        batches = []
        start = 0
        while start < len(order):
            # Widths ascend, so n pairs fit if the n-th is at most budget / n wide.
            max_rows = self._rows(int(widths[start]))
            next_widths = widths[start : start + max_rows]
            positions = next_widths * np.arange(1, len(next_widths) + 1)
            fits = positions <= self.batch_tokens
            count = max(1, int(fits.sum()))
            batches.append(order[start : start + count])
            start += count
        return batches

    def parts(
        self, batch: np.ndarray, lengths: np.ndarray, number: int
    ) -> Iterator[Part]:
        """Divides a global batch among replicas and gradient accumulation steps.

        Args:
            batch: Indices of a global batch, shortest pair first.
            lengths: `[n, 2]` integer, as for `global_batches`.
            number: Number of parts. Some are empty if the batch has fewer pairs.

        Yields:
            The parts. Together they hold each pair of the batch once.
        """
        widths = self._widths(lengths[batch])
        for indices, part_widths in zip(
            np.array_split(batch, number), np.array_split(widths, number), strict=True
        ):
            if self.pad_to_boundary:
                width = int(part_widths[-1] if len(indices) else widths[0])
                rows = -(-self._rows(width) // number)
                rows = max(rows, len(indices))
                yield Part(indices, rows, width, width)
            else:
                longest = lengths[indices].max(axis=0, initial=1)
                yield Part(
                    indices, max(1, len(indices)), int(longest[0]), int(longest[1])
                )

    def statistics(
        self, lengths: np.ndarray, number: int, epoch: int = 0
    ) -> "BatchStatistics":
        """Returns statistics of the batches of an epoch.

        Args:
            lengths: `[n, 2]` integer, as for `global_batches`.
            number: Number of parts per global batch.
            epoch: Index of the epoch. Default 0.
        """
        batches = self.global_batches(lengths, epoch)
        positions = 0
        shapes = set()
        for batch in batches:
            for part in self.parts(batch, lengths, number):
                shape = (part.rows, part.source_length, part.target_length)
                positions += part.rows * (part.source_length + part.target_length)
                shapes.add(shape)
        return BatchStatistics(
            batches=len(batches),
            shapes=len(shapes),
            non_padding=float(lengths.sum() / max(1, positions)),
        )


@dataclasses.dataclass(frozen=True)
class BatchStatistics:
    """Statistics of the batches of an epoch.

    Attributes:
        batches: Number of global batches, which equals the number of training steps.
        shapes: Number of distinct tensor shapes that a device receives.
        non_padding: Fraction of positions that hold a token, over both sides.
    """

    batches: int
    shapes: int
    non_padding: float
