"""unusual-size and unusual-width: far more lines, or files, than the commits of this repository have."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.review.finding import Finding, Place
from repoagent.review.history.past import Past

SIZE, WIDTH = "unusual-size", "unusual-width"
QUANTILE = 0.99
LEAST_FILES, LEAST_LINES = 8, 300  # however small commits usually are here
FEWEST = 100  # commits to compare with
_COUNTED = 2000  # files whose lines are counted


def quantile(values: Sequence[int], share: float = QUANTILE) -> int:
    """The value that this share of them does not exceed; 0 of too few to tell."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if len(values) >= FEWEST else 0


def width(past: Past) -> list[Finding]:
    """One finding for the change as a whole."""
    if past.habits is None or not past.habits.files or past.change.kind == "range":
        return []
    files = [file.path for file in past.change.files]
    if len(files) <= max(past.habits.files, LEAST_FILES):
        return []
    return [
        Finding(
            WIDTH,
            past.levels[WIDTH],
            f"the change touches {len(files):,} files: 99 of 100 commits here touch {past.habits.files:,} or fewer",
            Place(_first(files)),
            f"Compared with the files of each of the last {past.habits.commits:,} commits, without merges. A change "
            "that does one thing is easier to review, to revert and to find with git bisect.",
            key="width",
        )
    ]


def size(past: Past) -> list[Finding]:
    """One finding for the change as a whole. Generated and vendored files and lock files do not count."""
    from repoagent.review.history.marks import is_counted

    if past.habits is None or not past.habits.lines or past.change.kind == "range":
        return []
    if len(past.change.files) > _COUNTED:
        return []
    counts: dict[str, int] = {}
    for file in past.change.files:
        if is_counted(file.path):
            counts[file.path] = sum(
                len(lines.removed) + len(lines.added) for lines in past.change.read_lines(file)
            )
    total = sum(counts.values())
    if total <= max(past.habits.lines, LEAST_LINES):
        return []
    largest = max(counts, key=lambda path: (counts[path], path))
    return [
        Finding(
            SIZE,
            past.levels[SIZE],
            f"the change has {total:,} changed lines: 99 of 100 commits here have {past.habits.lines:,} or fewer",
            Place(largest),
            f"{counts[largest]:,} of them are in {largest}. Compared with the added and removed lines of each of the "
            f"last {past.habits.sampled:,} commits, without merges; lock files and vendored files are not counted.",
            key="size",
        )
    ]


def _first(paths: Sequence[str]) -> str:
    return min(paths)
