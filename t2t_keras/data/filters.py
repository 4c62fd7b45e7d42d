"""Which sentence pairs are worth training on."""

import dataclasses

import numpy as np


@dataclasses.dataclass
class LengthFilter:
    """Rejects pairs that are empty, too long, or of implausible length ratio.

    Args:
        max_tokens: The most tokens of either side. Default 256.
        max_length_ratio: How many times as long as the other a side may be. Lengths
            are compared after adding 5 to both, since short sentences vary more.
            Default 4.
    """

    max_tokens: int = 256
    max_length_ratio: float = 4.0

    def __post_init__(self) -> None:
        self.removed = {"empty": 0, "too long": 0, "length ratio": 0}
        """How many pairs each cause has removed so far."""

    def keep(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Decides over pairs by their lengths and counts those it rejects.

        Args:
            source: `[n]` integer, tokens of the sources.
            target: `[n]` integer, tokens of the targets.

        Returns:
            `[n]` bool.
        """
        shorter, longer = np.minimum(source, target), np.maximum(source, target)
        keep = np.ones(len(source), bool)
        for cause, rejected in (
            ("empty", shorter == 0),
            ("too long", longer > self.max_tokens),
            ("length ratio", longer + 5 > self.max_length_ratio * (shorter + 5)),
        ):
            self.removed[cause] += int((keep & rejected).sum())
            keep &= ~rejected
        return keep
