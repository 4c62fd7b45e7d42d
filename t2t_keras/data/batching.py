"""Batches of pairs of similar length under a token budget (section 5.1).

An epoch is planned from the lengths alone: which pairs form which global batch, in
which order. The plan is a function of (seed, epoch) and of nothing else, so that any
number of replicas takes the same steps, each reading only its own share, and a
stopped run goes on at any batch at no cost.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from t2t_keras.errors import UserError

_WINDOW_PAIRS = 1 << 20
"""Pairs sorted by length together; bounds the work before an epoch's first batch."""


def bucket_boundaries(longest: int) -> np.ndarray:
    """Returns the lengths that batches may be padded to: four to an octave.

    Args:
        longest: The greatest length that must fit.

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
    """The share of a global batch that one replica computes at once.

    Attributes:
        indices: Which examples, possibly none.
        rows: Rows of the padded tensors, at least `len(indices)` and 1.
        source_length: Columns of the padded source.
        target_length: Columns of the padded target.
    """

    indices: np.ndarray
    rows: int
    source_length: int
    target_length: int


@dataclasses.dataclass(frozen=True)
class Batching:
    """How global batches are formed.

    Args:
        batch_tokens: The most positions, padding included, that either side of a
            global batch may have. Default 25,000, as in the paper.
        batch_sentences: The most pairs of a global batch. Default no limit.
        pad_to_boundary: Give every part one of few shapes, a bucket's boundary wide
            and always as many rows, as compilers want it; otherwise a part is as
            wide as its longest pair. Default False.
        seed: Seed of the order. Default 0.

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
                raise UserError(f"{name} is at least 1. Received: {value}")
        if self.seed < 0:
            raise UserError(f"seed is at least 0. Received: {self.seed}")

    def _widths(self, lengths: np.ndarray) -> np.ndarray:
        """Returns what each pair counts for: its longer side, padded if need be."""
        longer = lengths.max(axis=1)
        if not self.pad_to_boundary or not len(longer):
            return longer
        boundaries = bucket_boundaries(int(longer.max()))
        return boundaries[np.searchsorted(boundaries, longer)]

    def _rows(self, width: int) -> int:
        """Returns how many pairs of a width fit in a global batch."""
        rows = max(1, self.batch_tokens // width)
        return min(rows, self.batch_sentences or rows)

    def global_batches(
        self, lengths: np.ndarray, epoch: int, shuffle: bool = True
    ) -> list[np.ndarray]:
        """Plans an epoch.

        Pairs are shuffled, sorted by their longer and then by their target side
        (ties stay in random order), and cut where the budget is spent; then the
        batches are shuffled.

        Args:
            lengths: `[n, 2]` integer, source and target tokens of every pair.
            epoch: Number of the epoch.
            shuffle: Whether order and composition are random. Default True.

        Returns:
            The indices of each global batch's pairs, shortest first. Every pair is
            in exactly one.
        """
        rng = np.random.default_rng([self.seed, epoch])
        order = np.arange(len(lengths))
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
        """Cuts pairs sorted by width into batches that keep to the budget."""
        batches = []
        start = 0
        while start < len(order):
            # Widths ascend: n pairs fit if the n-th is no wider than budget / n.
            most = self._rows(int(widths[start]))
            ahead = widths[start : start + most]
            fits = ahead * np.arange(1, len(ahead) + 1) <= self.batch_tokens
            count = max(1, int(fits.sum()))
            batches.append(order[start : start + count])
            start += count
        return batches

    def parts(
        self, batch: np.ndarray, lengths: np.ndarray, number: int
    ) -> Iterator[Part]:
        """Divides a global batch among replicas and accumulation steps.

        Args:
            batch: Indices of a global batch, shortest pair first.
            lengths: As of `global_batches`.
            number: How many parts to make. A batch of fewer pairs makes empty ones.

        Yields:
            The parts, together the batch.
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
        """Counts what an epoch's batches look like; arguments as of `parts`."""
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
    """What the batches of an epoch look like.

    Attributes:
        batches: Number of global batches, which is that of training steps.
        shapes: Number of distinct shapes that the device sees.
        non_padding: Share of positions that hold a token, of both sides together.
    """

    batches: int
    shapes: int
    non_padding: float
