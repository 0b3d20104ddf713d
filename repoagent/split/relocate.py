"""Map the cuts and the edited segments of a split to a new text of its source."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, product
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.patch.render import differing
from repoagent.split.folder_index import Index, IndexedSegment
from repoagent.syntax.parser import common_prefix, common_suffix

_FARTHEST = 1000  # lines by which a change may be moved
_SLACK = 2000  # bytes of the common start and end over which changes may be moved

Range = tuple[int, int, int, int]  # start and end in both


class Change(NamedTuple):
    """A change of the bytes `old` to `old_end` of one text to the bytes `new` to `new_end` of another."""

    old: int
    old_end: int
    new: int
    new_end: int


class OffsetMap:
    """The changes from one text to another, in order; maps offsets of the first to the second."""

    def __init__(self, old: bytes, new: bytes, cuts: Collection[int]) -> None:
        self.changes = changes(old, new, frozenset(cuts))
        self._ends = [change.old_end for change in self.changes]

    def change_at(self, offset: int) -> Change | None:
        """The change that contains or touches the offset of the first text; None if there is none."""
        number = bisect_left(self._ends, offset)
        if number < len(self.changes) and self.changes[number].old <= offset:
            return self.changes[number]
        return None

    def crosses(self, offset: int) -> bool:
        """Whether the offset is inside a change."""
        change = self.change_at(offset)
        return change is not None and change.old < offset < change.old_end

    def spots(self, offset: int) -> tuple[int, int]:
        """The offset in the second text, twice; both edges of the change if it contains or touches the offset."""
        change = self.change_at(offset)
        if change is not None:
            return change.new, change.new_end
        number = bisect_right(self._ends, offset)
        before = self.changes[number - 1] if number else Change(0, 0, 0, 0)
        return (offset - before.old_end + before.new_end,) * 2

    def edges(self, offset: int) -> tuple[int, int]:
        """As `spots`, but the start and the end of a replaced range map to its new start and end."""
        low, high = self.spots(offset)
        change = self.change_at(offset)
        if change is None or change.old == change.old_end or change.old < offset < change.old_end:
            return low, high
        return (low, low) if offset == change.old else (high, high)


def changes(old: bytes, new: bytes, cuts: Collection[int] = ()) -> list[Change]:
    """The replacements that turn `old` into `new`, in order, with at least one equal line between two of them.

    An insertion or deletion with several equivalent positions (as of the blank lines around a new function) is placed
    so that one of `cuts`, offsets in `old`, is at its edge.
    """
    if old == new:
        return []
    same = common_prefix(old, new)
    tail = max(common_suffix(old, new, min(len(old), len(new)) - same) - _SLACK, 0)
    head = old.rfind(b"\n", 0, max(same - _SLACK, 0)) + 1
    newline = old.find(b"\n", len(old) - tail)
    tail = len(old) - newline - 1 if newline >= 0 else 0
    left = old[head : len(old) - tail].splitlines(keepends=True)
    right = new[head : len(new) - tail].splitlines(keepends=True)
    old_at = [head, *(head + at for at in accumulate(map(len, left)))]
    new_at = [head, *(head + at for at in accumulate(map(len, right)))]
    ranges = differing(left, right)
    if cuts:
        wanted = {number for number, at in enumerate(old_at) if at in cuts}
        ranges = [_slide(left, right, ranges, number, wanted) for number in range(len(ranges))]
    return [Change(old_at[a], old_at[b], new_at[c], new_at[d]) for a, b, c, d in ranges]


def _slide(
    left: Sequence[bytes],
    right: Sequence[bytes],
    ranges: Sequence[Range],
    number: int,
    wanted: Collection[int],
) -> Range:
    """Move the change `number` to an equivalent position at one of the lines `wanted`, if possible."""
    a, b, c, d = ranges[number]
    if a < b and c < d:
        return a, b, c, d
    least = max(ranges[number - 1][1] + 1 if number else 0, a - _FARTHEST)
    most = min(ranges[number + 1][0] - 1 if number + 1 < len(ranges) else len(left), b + _FARTHEST)
    text = right[c:d] if a == b else left[a:b]
    up = down = 0
    while a - up > least and left[a - up - 1] == text[-1 - up % len(text)]:
        up += 1
    while b + down < most and left[b + down] == text[down % len(text)]:
        down += 1
    steps = range(-up, down + 1)
    both = [by for by in steps if a + by in wanted and b + by in wanted]
    either = [by for by in steps if a + by in wanted or b + by in wanted]
    by = min(both or either, key=abs, default=0)
    return a + by, b + by, c + by, d + by


@dataclass(frozen=True)
class Relocation:
    """A split in a new text: its `cuts` (without those inside changes); the `regions` of edited segments that are not
    merged, by file; the offsets where other segments may start, by file, likeliest first; and the files whose edits are
    already in the text."""

    cuts: frozenset[int]
    regions: Mapping[str, tuple[int, int]]
    starts: Mapping[str, tuple[int, int]]
    merged: frozenset[str]


def relocate(index: Index, base: bytes, files: Mapping[str, bytes], new: bytes) -> Relocation:
    """Relocate a split of `base` in `new`. `files` are the edited files by name."""
    cuts = [*(segment.start for segment in index.segments), len(base)]
    moved = OffsetMap(base, new, cuts)
    offsets: dict[int, int] = {}
    merged = set()
    for segments, start in _merged(index, files, moved, new):
        for segment in segments:
            merged.add(segment.file)
            offsets[segment.start] = start
            start += len(files[segment.file])
            offsets[segment.end] = start
    edited = [s.file in files and s.file not in merged for s in index.segments]
    for number, cut in enumerate(cuts):
        if cut in offsets or (moved.crosses(cut) and 0 < cut < len(base)):
            continue
        low, high = moved.edges(cut)
        after_edit = number > 0 and edited[number - 1]
        before_edit = number < len(edited) and edited[number]
        if after_edit == before_edit:
            size = cut - cuts[number - 1] if number else 0
            before_edit = cut == len(base) or (
                cut > 0 and _belongs_before(new, low, high, index.target - size)
            )
        offsets[cut] = high if before_edit else low
    regions: dict[str, tuple[int, int]] = {}
    starts: dict[str, tuple[int, int]] = {}
    last = 0
    for segment, is_edited in zip(index.segments, edited, strict=True):
        if is_edited:
            start = max(last, offsets.get(segment.start, moved.spots(segment.start)[0]))
            last = max(start, offsets.get(segment.end, moved.spots(segment.end)[1]))
            regions[segment.file] = start, last
        elif not moved.crosses(segment.start):
            low, high = moved.edges(segment.start)
            if high < moved.edges(segment.end)[0]:  # some of its text remains
                starts[segment.file] = high, low
    return Relocation(frozenset(offsets.values()), regions, starts, frozenset(merged))


def _belongs_before(new: bytes, low: int, high: int, free: int) -> bool:
    """Whether text inserted at a cut belongs to the segment before it: it fits there, or is indented deeper than the
    text after it."""
    return high - low <= free or _indent(new, low, high) > _indent(new, high, len(new))


def _indent(new: bytes, start: int, end: int) -> int:
    """The indentation of the first nonblank line."""
    while start < end:
        stop = new.find(b"\n", start, end) + 1 or end
        line = new[start : min(stop, start + 1000)]
        if line.strip():
            return len(line) - len(line.lstrip())
        start = stop
    return 0


def _merged(
    index: Index, files: Mapping[str, bytes], moved: OffsetMap, new: bytes
) -> Iterator[tuple[Sequence[IndexedSegment], int]]:
    """The edited segments that the new text contains, with their offsets. Neighbors are searched together first, since
    an insertion between two may belong to either."""
    run: list[IndexedSegment] = []
    for segment in [*index.segments, None]:
        if segment is not None and segment.file in files:
            run.append(segment)
            continue
        for group in ([run] if run else [], [[single] for single in run]):
            placed = [(segments, _find(segments, files, moved, new)) for segments in group]
            if any(start is not None for _, start in placed):
                yield from ((segments, start) for segments, start in placed if start is not None)
                break
        run = []


def _find(
    run: Sequence[IndexedSegment], files: Mapping[str, bytes], moved: OffsetMap, new: bytes
) -> int | None:
    text = b"".join(files[segment.file] for segment in run)
    for low, high in product(moved.spots(run[0].start), moved.spots(run[-1].end)):
        if high - low == len(text) and new[low:high] == text:
            return low
    return None
