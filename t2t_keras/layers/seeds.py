"""Random seeds of sub-layers."""

import zlib


def child_seed(seed: int, name: str) -> int:
    """Derives a different random seed for each sub-layer of a layer.

    Args:
        seed: Random seed of the layer.
        name: Name of the sub-layer, unique in the layer.

    Returns:
        An integer in [0, 2^31).
    """
    return zlib.crc32(f"{seed}/{name}".encode()) & 0x7FFFFFFF
