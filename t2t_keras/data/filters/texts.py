"""Sentences with the properties that several filters need, computed at most once."""

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from t2t_keras.data.filters import characters


class Texts(Sequence[str]):
    """The sentences of one side of a chunk of sentence pairs.

    A word is a run of characters other than white space. Text in scripts without spaces
    between words (Chinese, Japanese, Thai, ...) has an estimated number of words, which
    follows from its number of characters; see `word_units`.

    Args:
        lines: The sentences.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    @classmethod
    def of(cls, lines: Sequence[str]) -> "Texts":
        """Returns the sentences as `Texts`, without a copy if they are `Texts`."""
        return lines if isinstance(lines, Texts) else cls(lines)

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._lines[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def select(self, keep: np.ndarray) -> "Texts":
        """Returns the sentences for which `keep`, `[n]` bool, is True."""
        return Texts(list(itertools.compress(self._lines, keep.tolist())))

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """Number of characters of each sentence, `[n]` int64."""
        return np.fromiter(map(len, self._lines), np.int64, len(self))

    @functools.cached_property
    def ends(self) -> np.ndarray:
        """Positions in `code_points` after the last character of each, `[n]` int64."""
        return np.cumsum(self.lengths)

    @functools.cached_property
    def code_points(self) -> np.ndarray:
        """Code points of all sentences, one after the other, `[characters]` uint32."""
        content = "".join(self._lines).encode("utf-32-le", "surrogatepass")
        return np.frombuffer(content, np.dtype("<u4"))

    @functools.cached_property
    def flags(self) -> np.ndarray:
        """Character classes of `code_points`, `[characters]` uint8."""
        return characters.class_flags()[self.code_points]

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Returns sums over the characters of each sentence.

        Args:
            values: `[characters]` bool or integer, aligned with `code_points`.

        Returns:
            `[n]` int64.
        """
        sums = np.zeros(len(values) + 1, np.int64)
        np.cumsum(values, out=sums[1:])
        return sums[self.ends] - sums[self.ends - self.lengths]

    def count_class(self, flag: int) -> np.ndarray:
        """Returns the number of characters of a class in each sentence, `[n]` int64."""
        return self.totals((self.flags & flag) != 0)

    @functools.cached_property
    def visible(self) -> np.ndarray:
        """Number of characters other than white space in each, `[n]` int64."""
        return self.lengths - self.count_class(characters.SPACE)

    @functools.cached_property
    def columns(self) -> np.ndarray:
        """Length of each in characters, East Asian wide ones twice, `[n]` int64."""
        return self.lengths + self.count_class(characters.WIDE)

    @functools.cached_property
    def token_starts(self) -> np.ndarray:
        """Positions in `code_points` where tokens start, `[tokens]` int64.

        A token is a word, or a character of a script without spaces between words.
        """
        flags = self.flags
        is_space = (flags & characters.SPACE) != 0
        is_single = (flags & characters.UNSPACED) != 0
        starts = np.ones(len(flags), bool)
        starts[1:] = is_space[:-1] | is_single[:-1] | is_single[1:]
        starts[self.ends[self.ends < len(flags)]] = True
        return np.flatnonzero(starts & ~is_space)

    @functools.cached_property
    def token_lengths(self) -> np.ndarray:
        """Number of characters of each token, `[tokens]` int64."""
        is_space = (self.flags & characters.SPACE) != 0
        starts = self.token_starts
        visible = np.zeros(len(is_space) + 1, np.int64)
        np.cumsum(~is_space, out=visible[1:])
        return np.diff(visible[starts], append=visible[-1])

    @functools.cached_property
    def token_rows(self) -> np.ndarray:
        """Index of the sentence of each token, `[tokens]` int64."""
        return np.searchsorted(self.ends, self.token_starts, side="right")

    @functools.cached_property
    def words(self) -> np.ndarray:
        """Number of words of each sentence, rounded up, `[n]` int64."""
        is_single = self.flags[self.token_starts] & characters.UNSPACED
        rows = self.token_rows[is_single == 0]
        words = np.bincount(rows, minlength=len(self))
        units = self.totals(characters.word_units()[self.code_points])
        return words - (-units // characters.WORD_UNITS)
