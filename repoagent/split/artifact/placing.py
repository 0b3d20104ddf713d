"""Where the cuts of a split, and the segments that a person has edited, are in a later text of the source."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import product

from repoagent.dataclass import dataclass
from repoagent.split.artifact.carry import Carried
from repoagent.split.artifact.index import Index, IndexedSegment
from repoagent.split.common import common_prefix, common_suffix


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
    replaced are dropped. For `kept` of `repoagent.split.segments`."""
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
