"""What an edit may touch, line by line: all else has to stay as it is, to the byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class May:
    """A place of `file` that may change. Lines are named by how they begin, with or without their indentation.

    start..until: from that line to the one before `until` ("" is the end of the file). line: that line alone.
    before: new lines may go above that line. Exactly one of `start`, `line` and `before` is given.
    """

    file: str
    start: str = ""
    until: str = ""
    line: str = ""
    before: str = ""

    def range(self, lines: Sequence[str]) -> tuple[int, int]:
        """The half-open range of `lines` that may be replaced. Raises ValueError for a name that is not clear."""
        if self.line:
            first = _only(lines, self.line)
            return first, first + 1
        if self.before:
            first = _only(lines, self.before)
            return first, first
        first = _only(lines, self.start)
        if not self.until:
            return first, len(lines)
        for number in range(first + 1, len(lines)):
            if _begins(lines[number], self.until):
                return first, number
        raise ValueError(f"{self.file}: no line after {self.start!r} begins with {self.until!r}")


def damage(before: str, after: str | None, places: Sequence[May], keep: Sequence[str] = ()) -> str:
    """What is wrong outside of `places` (all of one file), in a few words, or "".

    The file is cut at the places into runs of lines that must all be there, one after the other, and at the start and
    the end with nothing before and after them. A line of `keep` (without indentation) must be there as often as before.
    """
    if after is None:
        return "the file is gone"
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    runs = frozen(old, places)
    at = 0
    for number, (first, run) in enumerate(runs):
        found = _find(new, run, at, anchored=number == 0, to_end=number == len(runs) - 1)
        if found is None:
            return f"changed near line {first + _agreeing(new, run, at) + 1}"
        at = found + len(run)
    for line in keep:
        had, has = (sum(text.strip() == line for text in lines) for lines in (old, new))
        if has < had:
            return f"lost: {line}"
    return ""


def frozen(lines: Sequence[str], places: Sequence[May]) -> list[tuple[int, Sequence[str]]]:
    """The runs of lines between the places, each with the number of its first line (from 0); the first and the last may
    be empty."""
    runs: list[tuple[int, Sequence[str]]] = []
    at = 0
    for first, end in sorted(place.range(lines) for place in places):
        if first < at:
            raise ValueError(f"two places overlap at line {first + 1}")
        runs.append((at, lines[at:first]))
        at = end
    return [*runs, (at, lines[at:])]


def stray(before: Mapping[str, bytes], after: Mapping[str, bytes], files: Sequence[str]) -> list[str]:
    """The paths other than `files` that were changed, made or removed."""
    return sorted(
        path for path in {*before, *after} if path not in files and before.get(path) != after.get(path)
    )


def _find(lines: Sequence[str], run: Sequence[str], at: int, *, anchored: bool, to_end: bool) -> int | None:
    last = len(lines) - len(run)
    if last < at:
        return None
    if to_end:
        return last if list(lines[last:]) == list(run) and (not anchored or last == at) else None
    for first in [at] if anchored else range(at, last + 1):
        if list(lines[first : first + len(run)]) == list(run):
            return first
    return None


def _agreeing(lines: Sequence[str], run: Sequence[str], at: int) -> int:
    """How many lines of `run` are there at its best place: where the first difference is."""
    best = 0
    for first in range(at, len(lines)):
        count = 0
        while count < len(run) and first + count < len(lines) and lines[first + count] == run[count]:
            count += 1
        best = max(best, count)
    return min(best, max(0, len(run) - 1))


def _only(lines: Sequence[str], start: str) -> int:
    found = [number for number, line in enumerate(lines) if _begins(line, start)]
    if len(found) != 1:
        raise ValueError(f"{len(found)} lines begin with {start!r}")
    return found[0]


def _begins(line: str, start: str) -> bool:
    return line.startswith(start) or line.lstrip().startswith(start)
