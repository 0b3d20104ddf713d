"""Find the cuts and the edited segments of a split in a later text of the source.

`changes` is a diff that is fast on large texts: it skips the common start and end, anchors the lines that occur once
in each text and in the same order (B. Cohen's patience diff, with a longest increasing subsequence by binary search),
and recurses between the anchors.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import accumulate, product
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.split.folder_index import Index, IndexedSegment
from repoagent.syntax.parser import common_prefix, common_suffix

_FARTHEST = 1000  # lines by which a change may be moved
_SLACK = 2000  # bytes of the common start and end over which changes may be moved
_CLOSE = 10_000  # pairs of lines up to which difflib is used

Range = tuple[int, int, int, int]  # start and end in both


class Change(NamedTuple):
    """The bytes `old` to `old_end` of one text became the bytes `new` to `new_end` of the other."""

    old: int
    old_end: int
    new: int
    new_end: int


class OffsetMap:
    """The changes from one text to another, in order; maps offsets of the first to the second."""

    def __init__(self, old: bytes, new: bytes, cuts: Collection[int]) -> None:
        self.changes = changes(old, new, frozenset(cuts))
        self._ends = [change.old_end for change in self.changes]

    def change_at(self, place: int) -> Change | None:
        """The change that contains or touches the offset `place` of the first text; None if there is none."""
        number = bisect_left(self._ends, place)
        if number < len(self.changes) and self.changes[number].old <= place:
            return self.changes[number]
        return None

    def spots(self, place: int) -> tuple[int, ...]:
        """The offsets of `place` in the second text: one, or both edges of a change."""
        change = self.change_at(place)
        if change is not None:
            return tuple(dict.fromkeys((change.new, change.new_end)))
        number = bisect_right(self._ends, place)
        before = self.changes[number - 1] if number else Change(0, 0, 0, 0)
        return (place - before.old_end + before.new_end,)

    def low(self, place: int) -> int:
        """The first of the spots; the last one for the end of a replaced range."""
        change = self.change_at(place)
        ends_there = change is not None and change.old < place == change.old_end
        return self.spots(place)[-1 if ends_there else 0]

    def high(self, place: int) -> int:
        """The last of the spots; the first one for the start of a replaced range."""
        change = self.change_at(place)
        starts_there = change is not None and change.old == place < change.old_end
        return self.spots(place)[0 if starts_there else -1]


def changes(old: bytes, new: bytes, cuts: Collection[int] = ()) -> list[Change]:
    """The replacements that turn `old` into `new`, in order, with at least one equal line between two of them.

    An insertion or deletion that could equally be placed a few lines on (the blank lines around a new function) is
    placed so that one of `cuts`, offsets in `old`, is at its edge.
    """
    if old == new:
        return []
    head, tail = _same_ends(old, new)
    one = old[head : len(old) - tail].splitlines(keepends=True)
    other = new[head : len(new) - tail].splitlines(keepends=True)
    numbers: dict[bytes, int] = {}
    left = [numbers.setdefault(line, len(numbers)) for line in one]
    right = [numbers.setdefault(line, len(numbers)) for line in other]
    old_at = [head, *(head + at for at in accumulate(map(len, one)))]
    new_at = [head, *(head + at for at in accumulate(map(len, other)))]
    found = sorted(_differ(left, right))
    if cuts:
        wanted = {number for number, at in enumerate(old_at) if at in cuts}
        found = [_slide(left, right, found, number, wanted) for number in range(len(found))]
    return [Change(old_at[a], old_at[b], new_at[c], new_at[d]) for a, b, c, d in found]


def _same_ends(old: bytes, new: bytes) -> tuple[int, int]:
    """How many bytes at the start and at the end are equal whole lines that the diff can skip."""
    head = common_prefix(old, new)
    tail = common_suffix(old, new, min(len(old), len(new)) - head)
    head, tail = max(head - _SLACK, 0), max(tail - _SLACK, 0)
    newline = old.find(b"\n", len(old) - tail)
    return old.rfind(b"\n", 0, head) + 1, len(old) - newline - 1 if newline >= 0 else 0


def _differ(left: Sequence[int], right: Sequence[int]) -> Iterator[Range]:
    """The ranges (start and end in both) in which two lists differ."""
    todo = [(0, len(left), 0, len(right))]
    while todo:
        a, b, c, d = todo.pop()
        while a < b and c < d and left[a] == right[c]:
            a, c = a + 1, c + 1
        while a < b and c < d and left[b - 1] == right[d - 1]:
            b, d = b - 1, d - 1
        if a == b and c == d:
            continue
        same = _anchors(left, right, (a, b, c, d)) if a < b and c < d else []
        if same:
            for one, other in [*same, (b, d)]:
                todo.append((a, one, c, other))
                a, c = one + 1, other + 1
        elif a < b and c < d and (b - a) * (d - c) <= _CLOSE:
            yield from _closely(left, right, (a, b, c, d))
        else:
            yield a, b, c, d


def _slide(
    left: Sequence[int], right: Sequence[int], found: Sequence[Range], number: int, wanted: Collection[int]
) -> Range:
    """Move the change `number` to an equivalent place at one of the lines `wanted`, if possible."""
    a, b, c, d = here = found[number]
    if a < b and c < d:
        return here
    least = max(found[number - 1][1] + 1 if number else 0, a - _FARTHEST)
    most = min(found[number + 1][0] - 1 if number + 1 < len(found) else len(left), b + _FARTHEST)
    text = right[c:d] if a == b else left[a:b]
    up = down = 0
    while a - up > least and left[a - up - 1] == text[-1 - up % len(text)]:
        up += 1
    while b + down < most and left[b + down] == text[down % len(text)]:
        down += 1
    both = [by for by in range(-up, down + 1) if a + by in wanted and b + by in wanted]
    one = [by for by in range(-up, down + 1) if a + by in wanted or b + by in wanted]
    by = min(both or one, key=abs, default=0)
    return a + by, b + by, c + by, d + by


def _anchors(left: Sequence[int], right: Sequence[int], within: Range) -> list[tuple[int, int]]:
    """The longest common sequence of the lines that occur exactly once on each side, as pairs of indices."""
    a, b, c, d = within
    ones, others = Counter(left[a:b]), Counter(right[c:d])
    at = {right[place]: place for place in range(c, d) if others[right[place]] == 1}
    pairs = [
        (place, at[left[place]]) for place in range(a, b) if ones[left[place]] == 1 and left[place] in at
    ]
    ends: list[int] = []  # the smallest end of an increasing run of each length
    last: list[int] = []  # the pair that is this end
    back = [-1] * len(pairs)
    for number, (_, other) in enumerate(pairs):
        length = bisect_left(ends, other)
        back[number] = last[length - 1] if length else -1
        ends[length : length + 1] = [other]
        last[length : length + 1] = [number]
    run = []
    number = last[-1] if last else -1
    while number >= 0:
        run.append(pairs[number])
        number = back[number]
    return run[::-1]


def _closely(left: Sequence[int], right: Sequence[int], within: Range) -> Iterator[Range]:
    from difflib import SequenceMatcher

    a, b, c, d = within
    matcher = SequenceMatcher(None, left[a:b], right[c:d], autojunk=False)
    for what, i, j, k, m in matcher.get_opcodes():
        if what != "equal":
            yield a + i, a + j, c + k, c + m


@dataclass(frozen=True)
class EditedRegion:
    """An edited segment that is not merged, and its range of the new text (empty if that was removed)."""

    segment: IndexedSegment
    start: int
    end: int


@dataclass(frozen=True)
class Relocation:
    """Where a split is in a new text: offsets to cut at, the edited segments, and those whose edits it already has."""

    cuts: tuple[int, ...]
    held: tuple[EditedRegion, ...] = ()
    merged: tuple[IndexedSegment, ...] = field(default=())


def relocate_cuts(old: bytes, new: bytes, cuts: Collection[int], target: int) -> list[int]:
    """The cuts of an earlier text in a new one, without those inside of changes; for `kept` of
    `repoagent.split.splitter.segments`."""
    carried = OffsetMap(old, new, cuts)
    return _carry(carried, new, sorted(cuts), target)


def relocate(
    index: Index, base: bytes, files: Mapping[str, bytes], bases: Mapping[str, bytes], new: bytes
) -> Relocation:
    """Find a split of `base` in `new`. `files` are the edited files by name, `bases` the texts that they are based
    on."""
    if files and _joined(index, base, files) == new:  # all edits were merged, and nothing else changed
        at, cuts = 0, []
        for segment in index.segments:
            at += len(files[segment.file]) if segment.file in files else segment.end - segment.start
            cuts.append(at)
        return Relocation(tuple(cuts), (), tuple(s for s in index.segments if s.file in files))
    carried = OffsetMap(base, new, cuts_of(index))
    merged = dict(_merged(index.segments, files, carried, new))
    held: list[EditedRegion] = []
    for segment in index.segments:
        if segment.file in files and segment.file not in merged:
            start, end = _bounds(segment, files[segment.file], bases[segment.file], carried)
            start = max(start, held[-1].end if held else 0)
            held.append(EditedRegion(segment, start, max(start, end)))
    cuts = cuts_of(index)
    near = {*(cut for span in merged.values() for cut in span), *_carry(carried, new, cuts, index.target)}
    inside = {cut for one in held for cut in near if one.start < cut < one.end} if held else set()
    edges = {edge for one in held for edge in (one.start, one.end)}
    return Relocation(
        tuple(sorted((near - inside) | edges)),
        tuple(held),
        tuple(s for s in index.segments if s.file in merged),
    )


def cuts_of(index: Index) -> list[int]:
    """Where the segments of a split start."""
    return [segment.start for segment in index.segments]


def _joined(index: Index, base: bytes, files: Mapping[str, bytes]) -> bytes:
    return b"".join(files.get(s.file, base[s.start : s.end]) for s in index.segments)


def _carry(carried: OffsetMap, new: bytes, cuts: Sequence[int], target: int) -> list[int]:
    found = []
    for number, cut in enumerate(cuts):
        change = carried.change_at(cut)
        if change is None or not change.old < cut < change.old_end:
            low, high = carried.low(cut), carried.high(cut)
            size = cut - (cuts[number - 1] if number else 0)
            found.append(low if low == high or not _goes_before(new, low, high, target - size) else high)
    return found


def _goes_before(new: bytes, low: int, high: int, room: int) -> bool:
    """Whether text inserted at a cut goes to the segment before it: it is indented deeper than what follows, or fits
    there."""
    first, following = _indent(new, low, high), _indent(new, high, len(new))
    return first > following or high - low <= room


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
    segments: Sequence[IndexedSegment], files: Mapping[str, bytes], carried: OffsetMap, new: bytes
) -> Iterator[tuple[str, tuple[int, int]]]:
    """The edited segments that the new text contains, with their ranges. Neighbors are searched together first, since
    an insertion between two may belong to either."""
    for run in _runs(segments, files):
        texts = [files[segment.file] for segment in run]
        start = _find(run[0].start, run[-1].end, b"".join(texts), carried, new)
        if start is not None:
            for segment, text in zip(run, texts, strict=True):
                yield segment.file, (start, start + len(text))
                start += len(text)
            continue
        for segment, text in zip(run, texts, strict=True):
            start = _find(segment.start, segment.end, text, carried, new)
            if start is not None:
                yield segment.file, (start, start + len(text))


def _runs(segments: Sequence[IndexedSegment], files: Mapping[str, bytes]) -> Iterator[list[IndexedSegment]]:
    run: list[IndexedSegment] = []
    for segment in segments:
        if segment.file in files:
            run.append(segment)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _find(start: int, end: int, text: bytes, carried: OffsetMap, new: bytes) -> int | None:
    for low, high in product(carried.spots(start), carried.spots(end)):
        if high - low == len(text) and new[low:high] == text:
            return low
    return None


def _bounds(segment: IndexedSegment, text: bytes, base: bytes, carried: OffsetMap) -> tuple[int, int]:
    """The range of an edited segment in the new text. It excludes insertions at its edge, unless the edit is at this
    edge too: then the two must be merged."""
    at_start = common_prefix(base, text) < (base.find(b"\n") + 1 or len(base)) or not base
    at_end = common_suffix(base, text) < len(base) - base.rfind(b"\n", 0, len(base) - 1) - 1 or not base
    start = carried.low if at_start or _within(carried, segment.start) else carried.high
    end = carried.high if at_end or _within(carried, segment.end) else carried.low
    return start(segment.start), end(segment.end)


def _within(carried: OffsetMap, place: int) -> bool:
    change = carried.change_at(place)
    return change is not None and change.old < place < change.old_end
