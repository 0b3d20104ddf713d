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


def matched(free: Sequence[IndexedSegment], carried: Carried, pieces: Sequence[Piece]) -> list[str | None]:
    """The file of each piece: its own, that of the segment of the old text (one of `free`) of which it holds most and
    more than any other piece does, or none."""
    spans = [(_about(carried, one.start), _about(carried, one.end, end=True), one.file) for one in free]
    best: dict[str, tuple[int, int]] = {}  # file: (bytes that they share, the number of the piece)
    first = 0
    for number, (piece, name) in enumerate(pieces):
        while first < len(spans) and spans[first][1] <= piece.start:
            first += 1
        shared = (0, "")
        for start, end, file in spans[first:] if name is None else ():
            if start >= piece.end:
                break
            shared = max(
                shared, (min(end, piece.end) - max(start, piece.start), file), key=lambda pair: pair[0]
            )
        if shared[0] > best.get(shared[1], (0, 0))[0]:
            best[shared[1]] = (shared[0], number)
    files = {number: file for file, (_, number) in best.items()}
    return [name or files.get(number) for number, (_, name) in enumerate(pieces)]


def _about(carried: Carried, place: int, *, end: bool = False) -> int:
    """Where the start (or `end`) of a segment at `place` of the old text is in the new one, without what was put in
    beside it; as far through what was replaced as it was before."""
    change = carried.change_at(place)
    if change is None or change.old == change.old_end:
        return carried.low(place) if end else carried.high(place)
    return change.new + (place - change.old) * (change.new_end - change.new) // (change.old_end - change.old)


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
