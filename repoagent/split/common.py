"""How much of their beginning, or of their end, two texts share."""

from __future__ import annotations


def common_prefix(one: bytes, other: bytes) -> int:
    """How many bytes both begin with, by halving: a loop over bytes is slow."""
    low, high = 0, min(len(one), len(other))
    first, second = memoryview(one), memoryview(other)
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(one: bytes, other: bytes, most: int | None = None) -> int:
    """How many bytes both end with, `most` if there are more."""
    low, high = 0, min(len(one), len(other)) if most is None else most
    first, second = memoryview(one), memoryview(other)
    while low < high:
        middle = (low + high + 1) // 2
        if first[len(one) - middle : len(one) - low] == second[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle - 1
    return low
