"""Find the boundaries of segments in a later text of their source, only where they are unambiguous."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from repoagent.dataclass import dataclass

Range = tuple[int, int, int, int]
Differing = Callable[[Sequence[bytes], Sequence[bytes]], Sequence[Range]]


@dataclass(frozen=True)
class Zone:
    """A change of the lines `low` to `high` (excluded) of an old text, extended as far as the inserted or deleted lines
    could equally be placed. `steady`: it replaces line by line and has one place only."""

    low: int
    high: int
    steady: bool


def lines_of(data: bytes) -> list[bytes]:
    """The lines with their line feeds."""
    return io.BytesIO(data).readlines()


def change_zones(old: Sequence[bytes], new: Sequence[bytes], ranges: Sequence[Range]) -> list[Zone]:
    """The changes from `old` to `new`, each extended as far as possible."""
    return [_zone(old, new, one) for one in ranges]


def _zone(old: Sequence[bytes], new: Sequence[bytes], one: Range) -> Zone:
    i1, i2, j1, j2 = one
    if i1 < i2 and j1 < j2:
        return _replaced(old, new, one)
    lines, first, end = (new, j1, j2) if i1 == i2 else (old, i1, i2)
    up = down = 0
    while first - up > 0 and i1 - up > 0 and lines[first - up - 1] == lines[end - up - 1]:
        up += 1
    while end + down < len(lines) and i2 + down < len(old) and lines[first + down] == lines[end + down]:
        down += 1
    return Zone(i1 - up, i2 + down, False)


def _replaced(old: Sequence[bytes], new: Sequence[bytes], one: Range) -> Zone:
    """Extend a replacement over equal adjacent lines, which may be the inserted ones."""
    i1, i2, j1, j2 = one
    lines = {*old[i1:i2], *new[j1:j2]}
    low, high = i1, i2
    while low > 0 and old[low - 1] in lines:
        low -= 1
    while high < len(old) and old[high] in lines:
        high += 1
    return Zone(low, high, (low, high) == (i1, i2) and i2 - i1 == j2 - j1)


@dataclass(frozen=True)
class EdgeEdit:
    """How the edits of the two segments at a boundary affect it. `lines`: one of them changes the lines next to it;
    `steady`: it only replaces line by line."""

    lines: bool
    steady: bool

    def __or__(self, other: EdgeEdit) -> EdgeEdit:
        return EdgeEdit(self.lines or other.lines, self.steady and other.steady)


def edge_edit(before: bytes, after: bytes, differing: Differing, *, at_end: bool) -> EdgeEdit:
    """How the edit of one segment affects its end, or its start."""
    if before == after:
        return EdgeEdit(False, True)
    old, new = lines_of(before), lines_of(after)
    edge = len(old) if at_end else 0
    meeting = [
        zone
        for zone in change_zones(old, new, differing(old, new))
        if edge == (zone.high if at_end else zone.low)
    ]
    return EdgeEdit(bool(meeting), all(zone.steady for zone in meeting))


def rebase_cuts(
    base: bytes, present: bytes, cuts: Sequence[tuple[int, EdgeEdit]], differing: Differing
) -> list[int | None]:
    """The offset in `present` of each of the `cuts` (an offset in `base`, ascending, and the edit there); None if a
    change of the source crosses it, or if a change and an edit meet so that their order is ambiguous."""
    old, new = lines_of(base), lines_of(present)
    old_at, new_at = [0, *accumulate(map(len, old))], [0, *accumulate(map(len, new))]
    ranges = differing(old, new)
    wide = change_zones(old, new, ranges)
    found: list[int | None] = []
    for cut, touch in cuts:
        line = bisect_right(old_at, cut) - 1
        if cut in (0, len(base)):
            found.append(0 if cut == 0 else len(present))
        else:
            row = _row(line, touch, ranges, wide, inside=old_at[line] < cut)
            found.append(None if row is None else new_at[row] + cut - old_at[line])
    return found


def _row(
    line: int, touch: EdgeEdit, ranges: Sequence[Range], wide: Sequence[Zone], *, inside: bool
) -> int | None:
    """The line of the new text for a boundary before, or `inside` of, `line` of the old one; None if ambiguous."""
    moved = 0
    for (_, i2, _, j2), zone in zip(ranges, wide, strict=True):
        if zone.low < line < zone.high or (inside and line == zone.low < zone.high):
            return None
        if line in (zone.low, zone.high) and touch.lines and not (zone.steady and touch.steady):
            return None
        if zone.high <= line:
            moved = j2 - i2
    return line + moved
