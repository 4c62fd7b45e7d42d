"""Filters that remove unsuitable sentence pairs."""

import dataclasses

import numpy as np


@dataclasses.dataclass
class LengthFilter:
    """Removes pairs that are empty, too long, or have an implausible length ratio.

    Args:
        max_tokens: Maximum number of tokens on either side. Default 256.
        max_length_ratio: Maximum ratio of the longer to the shorter side. 5 is added
            to both lengths first, because the ratio varies more for short sentences.
            Default 4.
    """

    max_tokens: int = 256
    max_length_ratio: float = 4.0

    def __post_init__(self) -> None:
        self.removed = {"empty": 0, "too long": 0, "length ratio": 0}
        """Number of pairs removed so far, by reason."""

    def keep(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Returns which pairs to keep and counts the others in `removed`.

        Args:
            source: `[n]` integer, number of tokens of each source.
            target: `[n]` integer, number of tokens of each target.

        Returns:
            `[n]` bool, True for the pairs to keep.
        """
        shorter, longer = np.minimum(source, target), np.maximum(source, target)
        keep = np.ones(len(source), bool)
        for reason, rejected in (
            ("empty", shorter == 0),
            ("too long", longer > self.max_tokens),
            ("length ratio", longer + 5 > self.max_length_ratio * (shorter + 5)),
        ):
            self.removed[reason] += int((keep & rejected).sum())
            keep &= ~rejected
        return keep
