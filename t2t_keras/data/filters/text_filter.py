"""The interface of filters for sentence pairs."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from t2t_keras.data.filters.texts import Texts


class TextFilter(ABC):
    """Decides from its text alone whether to keep a sentence pair.

    A filter is deterministic, decides about each pair on its own, and can be pickled.

    Attributes:
        name: Name in `--filters`, in reports and in the manifest.
        per_pair: Whether the time of a pair is long, so that pairs that other filters
            have rejected should be left out of the call.
    """

    name: ClassVar[str]
    per_pair: ClassVar[bool] = False

    def keep(self, sources: Sequence[str], targets: Sequence[str]) -> np.ndarray:
        """Returns which pairs to keep.

        Args:
            sources: The sources of a chunk of pairs; some thousands at a time are
                fastest.
            targets: The targets of the same pairs.

        Returns:
            `[n]` bool.

        Raises:
            ValueError: If there are not as many targets as sources.
        """
        if len(sources) != len(targets):
            raise ValueError(
                f"{self.name}: {len(sources)} sources, but {len(targets)} targets"
            )
        return self._keep(Texts.of(sources), Texts.of(targets))

    @abstractmethod
    def _keep(self, sources: Texts, targets: Texts) -> np.ndarray:
        """Returns which pairs to keep, `[n]` bool."""


class SideFilter(TextFilter):
    """Keeps the pairs of which each side is acceptable on its own."""

    def _keep(self, sources: Texts, targets: Texts) -> np.ndarray:
        return self._keep_side(sources) & self._keep_side(targets)

    @abstractmethod
    def _keep_side(self, texts: Texts) -> np.ndarray:
        """Returns which sentences to keep, `[n]` bool."""
