"""Pseudorandom choices that do not depend on the order of processing."""

import numpy as np


def uniform(numbers: np.ndarray) -> np.ndarray:
    """Returns a pseudorandom number in [0, 1) for each integer (SplitMix64)."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))) / 2.0**64
