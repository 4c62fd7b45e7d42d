"""Seeds for the parts of a layer."""

import zlib


def child_seed(seed: int, name: str) -> int:
    """Derives the seed of a named part, so that no two parts draw the same numbers.

    Args:
        seed: The seed of the whole.
        name: The part's name, unique within the whole.

    Returns:
        An integer in [0, 2^31).
    """
    return zlib.crc32(f"{seed}/{name}".encode()) & 0x7FFFFFFF
