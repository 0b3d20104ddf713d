"""Carry places of a text over to a later one: what changed between two texts, fast on large ones.

What both begin and end with is set aside at once; in between, the lines that each text holds once and in the same
order are taken for the same (B. Cohen's patience diff, with the longest increasing subsequence by P. M. Fenwick's
binary search), and so on between these.

Where the cuts of a split, and the segments that a person has edited, are in a later text of the source.
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

_FARTHEST = 1000  # lines that a change is moved by
_SLACK = 2000  # bytes beside all changes that they may be moved over
_CLOSE = 10_000  # pairs of lines that are compared each with each

Range = tuple[int, int, int, int]  # start and end in both


class Change(NamedTuple):
    """The bytes `old` to `old_end` of one text are the bytes `new` to `new_end` of the other."""

    old: int
    old_end: int
    new: int
    new_end: int


class Carried:
    """The changes from one text to another, in order, and where places of the first are in the second."""

    def __init__(self, old: bytes, new: bytes, cuts: Collection[int]) -> None:
        self.changes = changes(old, new, frozenset(cuts))
        self._ends = [change.old_end for change in self.changes]

    def change_at(self, place: int) -> Change | None:
        """The change that the byte offset `place` of the first text is in or at an edge of."""
        number = bisect_left(self._ends, place)
        if number < len(self.changes) and self.changes[number].old <= place:
            return self.changes[number]
        return None

    def spots(self, place: int) -> tuple[int, ...]:
        """Where `place` may be in the second text: at one byte offset, or at either edge of a change."""
        change = self.change_at(place)
        if change is not None:
            return tuple(dict.fromkeys((change.new, change.new_end)))
        number = bisect_right(self._ends, place)
        before = self.changes[number - 1] if number else Change(0, 0, 0, 0)
        return (place - before.old_end + before.new_end,)

    def low(self, place: int) -> int:
        """The first of the spots; the last one for the end of what was replaced."""
        change = self.change_at(place)
        ends_there = change is not None and change.old < place == change.old_end
        return self.spots(place)[-1 if ends_there else 0]

    def high(self, place: int) -> int:
        """The last of the spots; the first one for the start of what was replaced."""
        change = self.change_at(place)
        starts_there = change is not None and change.old == place < change.old_end
        return self.spots(place)[0 if starts_there else -1]


def changes(old: bytes, new: bytes, cuts: Collection[int] = ()) -> list[Change]:
    """What to replace in `old` to make it `new`, in order; between two changes at least one line is the same.

    What was put in or taken out can often be said to stand here or a few lines on (the blank lines around a new
    function): then it is where one of `cuts`, offsets in `old`, is at its edge.
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
    """How many bytes of the start and of the end are the same and made of whole lines, and are not looked at."""
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
    """The change `number` where it is as well and at one of the places `wanted`, if it is one that can be moved."""
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
    """The places of what both hold once there, the most of them that stand in the same order."""
    a, b, c, d = within
    ones, others = Counter(left[a:b]), Counter(right[c:d])
    at = {right[place]: place for place in range(c, d) if others[right[place]] == 1}
    pairs = [
        (place, at[left[place]]) for place in range(a, b) if ones[left[place]] == 1 and left[place] in at
    ]
    ends: list[int] = []  # the least end of an increasing run of each length
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
class Held:
    """An edited segment that is not merged, and its part of the new text (empty where that is gone)."""

    segment: IndexedSegment
    start: int
    end: int


@dataclass(frozen=True)
class Places:
    """`cuts` are good places to cut the new text at, `merged` the edited segments whose edits it has already."""

    cuts: tuple[int, ...]
    held: tuple[Held, ...] = ()
    merged: tuple[IndexedSegment, ...] = field(default=())


def carried_cuts(old: bytes, new: bytes, cuts: Collection[int], target: int) -> list[int]:
    """The cuts of an earlier text, carried over to a new one by what changed between them: those inside of what was
    replaced are dropped. For `kept` of `repoagent.split.splitter.segments`."""
    carried = Carried(old, new, cuts)
    return _carry(carried, new, sorted(cuts), target)


def place(
    index: Index, base: bytes, files: Mapping[str, bytes], bases: Mapping[str, bytes], new: bytes
) -> Places:
    """Carry a split of `base` over to `new`. `files` are the edited files by name, `bases` what they were edited
    from."""
    if files and _joined(index, base, files) == new:  # all were merged, and nothing else has changed
        at, cuts = 0, []
        for segment in index.segments:
            at += len(files[segment.file]) if segment.file in files else segment.end - segment.start
            cuts.append(at)
        return Places(tuple(cuts), (), tuple(s for s in index.segments if s.file in files))
    carried = Carried(base, new, cuts_of(index))
    merged = dict(_merged(index.segments, files, carried, new))
    held: list[Held] = []
    for segment in index.segments:
        if segment.file in files and segment.file not in merged:
            start, end = _bounds(segment, files[segment.file], bases[segment.file], carried)
            start = max(start, held[-1].end if held else 0)
            held.append(Held(segment, start, max(start, end)))
    cuts = cuts_of(index)
    near = {*(cut for span in merged.values() for cut in span), *_carry(carried, new, cuts, index.target)}
    inside = {cut for one in held for cut in near if one.start < cut < one.end} if held else set()
    edges = {edge for one in held for edge in (one.start, one.end)}
    return Places(
        tuple(sorted((near - inside) | edges)),
        tuple(held),
        tuple(s for s in index.segments if s.file in merged),
    )


def cuts_of(index: Index) -> list[int]:
    """Where the segments of a split start."""
    return [segment.start for segment in index.segments]


def _joined(index: Index, base: bytes, files: Mapping[str, bytes]) -> bytes:
    return b"".join(files.get(s.file, base[s.start : s.end]) for s in index.segments)


def _carry(carried: Carried, new: bytes, cuts: Sequence[int], target: int) -> list[int]:
    found = []
    for number, cut in enumerate(cuts):
        change = carried.change_at(cut)
        if change is None or not change.old < cut < change.old_end:
            low, high = carried.low(cut), carried.high(cut)
            size = cut - (cuts[number - 1] if number else 0)
            found.append(low if low == high or not _goes_before(new, low, high, target - size) else high)
    return found


def _goes_before(new: bytes, low: int, high: int, room: int) -> bool:
    """Whether what was put in at a cut belongs to the segment before it: indented deeper than what follows, or there is
    room for it."""
    first, following = _indent(new, low, high), _indent(new, high, len(new))
    return first > following or high - low <= room


def _indent(new: bytes, start: int, end: int) -> int:
    """How far the first line with anything in it is indented."""
    while start < end:
        stop = new.find(b"\n", start, end) + 1 or end
        line = new[start : min(stop, start + 1000)]
        if line.strip():
            return len(line) - len(line.lstrip())
        start = stop
    return 0


def _merged(
    segments: Sequence[IndexedSegment], files: Mapping[str, bytes], carried: Carried, new: bytes
) -> Iterator[tuple[str, tuple[int, int]]]:
    """The edited segments that the new text has in their places, and these. Neighbours are looked for together first:
    what was put in between two can't be told apart."""
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


def _find(start: int, end: int, text: bytes, carried: Carried, new: bytes) -> int | None:
    for low, high in product(carried.spots(start), carried.spots(end)):
        if high - low == len(text) and new[low:high] == text:
            return low
    return None


def _bounds(segment: IndexedSegment, text: bytes, base: bytes, carried: Carried) -> tuple[int, int]:
    """The part of the new text that an edited segment has. What the source has got at its edge is not part of it,
    unless the edit is at this edge too: then the two have to be merged."""
    at_start = common_prefix(base, text) < (base.find(b"\n") + 1 or len(base)) or not base
    at_end = common_suffix(base, text) < len(base) - base.rfind(b"\n", 0, len(base) - 1) - 1 or not base
    start = carried.low if at_start or _within(carried, segment.start) else carried.high
    end = carried.high if at_end or _within(carried, segment.end) else carried.low
    return start(segment.start), end(segment.end)


def _within(carried: Carried, place: int) -> bool:
    change = carried.change_at(place)
    return change is not None and change.old < place < change.old_end
