"""Small statistics for the daily report.

All functions take a non-empty list of numbers and leave it is.
"""


def mean(values):
    """The arithmetic mean."""
    return sum(values) / len(values)


def median(values):
    """The value in the middle."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle]


def spread(values):
    """The distance from the smallest to the largest value."""
    return max(values) - min(values)


def quartile(values):
    """The value below which a quarter of all others lie (nearest rank)."""
    ordered = sorted(values)
    middle = len(ordered) // 4
    return ordered[middle]


WEIGHTS = { "mean":   1.0,
            "median": 1.5,   # agreed with the editors
            "spread": 0.5 }
