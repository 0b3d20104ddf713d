"""The segments of a new text with those kept whole that a person has edited, and which old file each of them has."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from repoagent.split.artifact.carry import Carried
from repoagent.split.artifact.index import IndexedSegment
from repoagent.split.artifact.placing import Held
from repoagent.split.segment import Segment

Piece = tuple[Segment, str | None]  # and the file that it has, if it is an edited one's


def with_held(found: Sequence[Segment], held: Sequence[Held], data: bytes, target: int) -> list[Piece]:
    """`found`, the segments of `data`, cut and joined so that each of `held` is a segment of its own."""
    spans: list[tuple[int, int, str | None]] = []
    place = number = 0
    for start, end, name in [
        *((one.start, one.end, one.segment.file) for one in held),
        (len(data), len(data), None),
    ]:
        while place < start:
            while found[number].end <= place:
                number += 1
            stop = min(found[number].end, start)
            spans.append((place, stop, None))
            place = stop
        if name is not None:
            spans.append((start, end, name))
            place = end
    whole = {(one.start, one.end): one for one in found}
    lines = _Lines(found, data)
    model = found[0] if found else None
    return [
        (whole.get((start, end)) or _part(start, end, lines, model, target), name)
        for start, end, name in spans
    ]


def names(free: Sequence[IndexedSegment], carried: Carried, pieces: Sequence[Piece]) -> list[str | None]:
    """The file of each piece: its own, that of the old segment (one of `free`) that began there, or none."""
    found = [name for _, name in pieces]
    at = {piece.start: number for number, (piece, name) in enumerate(pieces) if name is None}
    for segment in free:
        change = carried.change_at(segment.start)
        gone = change is not None and (change.old < segment.start or change.new == change.new_end)
        if change is not None and segment.start < change.old_end and gone:
            continue
        for place in (carried.high(segment.start), carried.low(segment.start)):
            if place in at:
                found[at.pop(place)] = segment.file
                break
    return found


def _part(start: int, end: int, lines: _Lines, model: Segment | None, target: int) -> Segment:
    first = lines.at(start)
    part = Segment(
        start,
        end,
        first,
        first - 1 if start == end else lines.at(end) - lines.starts(end),
        "kept" if start else "start",
        oversize=end - start > target,
        inside_line=start > 0 and not lines.starts(start),
    )
    return replace(part, outline=model.outline) if model else part


class _Lines:
    """The numbers of lines at byte offsets of a text of which segments are known."""

    def __init__(self, found: Sequence[Segment], data: bytes) -> None:
        self._found = found
        self._starts = [one.start for one in found]
        self._data = data

    def at(self, place: int) -> int:
        """The line that the byte at `place` is in."""
        if not self._found:
            return 1
        number = max(bisect_right(self._starts, place) - 1, 0)
        one = self._found[number]
        return one.first_line + self._data.count(b"\n", one.start, place)

    def starts(self, place: int) -> bool:
        """Whether a line begins at `place`."""
        return self._data.endswith(b"\n", 0, place)
