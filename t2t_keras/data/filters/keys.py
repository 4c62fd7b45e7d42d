"""64-bit keys that find duplicates and leaks of held-out text in a corpus of any size.

The keys depend on the text alone: they are equal in all processes and on all machines.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from t2t_keras.data.filters import characters

Kind = Literal["pair", "source", "target"]
"""What a key is computed from."""

_SEPARATOR = "\0"


def keys(
    kind: Kind, normalized: bool, sources: Sequence[str], targets: Sequence[str]
) -> np.ndarray:
    """Returns keys that are equal for equal text.

    Args:
        kind: "pair", "source" or "target".
        normalized: Whether to compare only letters and digits, without regard to case
            (NFKC and case folding). Text without letters and digits is compared as
            if False: without regard to runs of white space.
        sources: Sources of the pairs.
        targets: Targets of the pairs.

    Returns:
        `[n]` uint64.
    """
    prepare = _normalize if normalized else _squeeze
    if kind == "pair":
        pairs = zip(prepare(sources), prepare(targets), strict=True)
        texts = [f"{source}{_SEPARATOR}{target}" for source, target in pairs]
    else:
        texts = prepare(sources if kind == "source" else targets)
    digests = b"".join([_digest(text) for text in texts])
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def _digest(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=8).digest()


def _squeeze(texts: Sequence[str]) -> list[str]:
    return [" ".join(text.split()) for text in texts]


def _normalize(texts: Sequence[str]) -> list[str]:
    if not texts:
        return []
    # One string for all texts: then each step is a single call.
    joined = "\n".join(texts)
    if joined.count("\n") >= len(texts):
        joined = "\n".join([text.replace("\n", " ") for text in texts])
    folded = unicodedata.normalize("NFKC", joined).casefold()
    content = folded.encode("utf-32-le", "surrogatepass")
    points = np.frombuffer(content, np.dtype("<u4"))
    kept = (characters.class_flags()[points] & characters.ALPHANUMERIC) != 0
    kept |= points == ord("\n")
    content = points[kept].tobytes()
    normalized = content.decode("utf-32-le", "surrogatepass").split("\n")
    return [
        short or f"{_SEPARATOR}{' '.join(text.split())}"
        for short, text in zip(normalized, texts, strict=True)
    ]


class HeldOutKeys:
    """The keys of dev and test text, which find leaks into the training data.

    A training pair is a leak if its source is the source of a held-out pair, or its
    target is the target of one. Empty held-out sentences are ignored.

    Args:
        normalized: Whether to compare only letters and digits; see `keys`.
        pairs: Pairs of held-out sources and targets.
    """

    def __init__(self, normalized: bool, pairs: Iterable[tuple[str, str]]) -> None:
        self.normalized = normalized
        sides = list(zip(*pairs, strict=True)) or [(), ()]
        self.sources, self.targets = (
            np.unique(keys("source", normalized, texts, texts))
            for texts in ([text for text in side if text.strip()] for side in sides)
        )

    def leaks(self, sources: Sequence[str], targets: Sequence[str]) -> np.ndarray:
        """Returns which training pairs are leaks.

        Args:
            sources: Sources of training pairs.
            targets: Targets of the same pairs.

        Returns:
            `[n]` bool.
        """
        return self.leaked_keys(
            keys("source", self.normalized, sources, targets),
            keys("target", self.normalized, sources, targets),
        )

    def leaked_keys(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Returns which training pairs are leaks, given their keys.

        Args:
            sources: Keys of the sources, `[n]` uint64.
            targets: Keys of the targets, `[n]` uint64.

        Returns:
            `[n]` bool.
        """
        return np.isin(sources, self.sources) | np.isin(targets, self.targets)
