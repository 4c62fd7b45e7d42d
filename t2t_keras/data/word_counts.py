"""Words of text: white space and control characters separate them."""

import collections
import itertools
import re
from collections.abc import Iterable, Sequence

# C0 and C1 control characters, and all Unicode spaces and separators.
SEPARATORS = r"[\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"

_SEPARATORS = re.compile(SEPARATORS)

# The separators that str.split does not know.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")

_CHUNK_LINES = 4096


def clean_line(line: str) -> str:
    """Replaces each run of control characters and white space by one space."""
    return _SEPARATORS.sub(" ", line)


def split_lines(lines: Sequence[str]) -> list[list[str]]:
    """Splits each line into words.

    Args:
        lines: `[n]` sentences.

    Returns:
        `[n, (words)]`. No word is empty.
    """
    # Control characters are rare, and str.split is faster than a regular expression.
    if _CONTROL.search("\n".join(lines)):
        lines = [clean_line(line) for line in lines]
    return [line.split() for line in lines]


def count_words(lines: Iterable[str]) -> collections.Counter[str]:
    """Counts the words of some lines.

    Args:
        lines: Sentences.

    Returns:
        The number of occurrences of each word.
    """
    counts: collections.Counter[str] = collections.Counter()
    remaining = iter(lines)
    while chunk := list(itertools.islice(remaining, _CHUNK_LINES)):
        counts.update(itertools.chain.from_iterable(split_lines(chunk)))
    return counts
