"""Update a split to the current text of its source, keeping good cuts and all edited segment files."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise, product
from pathlib import Path
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.patch.render import diff_ranges
from repoagent.split import folder_index
from repoagent.split.folder_index import SplitIndex, digest
from repoagent.split.folder_writer import finish_update, write_split
from repoagent.split.pack import Segment
from repoagent.split.source import (
    PLAIN,
    SourceText,
    SplitOptions,
    check_options,
    check_text,
    current_source,
    cut_text,
    fill_names,
    new_index,
    suffix_of,
)
from repoagent.split.splitter import describe_segments
from repoagent.syntax.languages import LONG_TAIL, is_available, language_of
from repoagent.syntax.parser import common_prefix, common_suffix

_LONGEST_STEM = 24  # of a file name without its suffix
_FARTHEST = 1000  # lines by which a change may be moved
_SLACK = 2000  # bytes of the common start and end over which changes may be moved


@dataclass(frozen=True)
class RefreshResult:
    """The segment files, by what a refresh did with them.

    written: the earlier files that it wrote again
    added, removed: the files that it added and removed
    edited: the files that it left as the user edited them
    to_merge: those of the edited files whose source has changed, too
    merged: the files whose edits the source already has
    """

    index: SplitIndex
    written: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    to_merge: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()


def refresh_split(
    path: Path,
    cwd: Path,
    *,
    text: SourceText | None = None,
    target: int | None = None,
    natural: bool | None = None,
    language: str | None = None,
    joined: Mapping[str, str] | None = None,
) -> RefreshResult:
    """Update the split at `path` (a folder, or its index) to the current text of its source. Missing segment files are
    written again.

    Pass `text` if the file was renamed or comes from standard input. `target`, `natural` and `language` replace the
    options of the split. `joined` maps edited files to their hashes when they were joined; an edited file is
    overwritten only if its hash is still the same. Raises Busy, and what `read_index` and `find_text` raise, before any
    change.
    """
    if not folder_index.index_path(path).is_file():
        folder_index.read_index(path)  # raises the error
    with folder_index.lock_split(folder_index.index_path(path).parent):
        index = finish_update(folder_index.read_index(path, missing_ok=True))
        text = text or current_source(index, cwd)
        base = folder_index.base_bytes(index)
        if language is None and language_of(index.source.path, base) != index.language:
            missing = index.language in LONG_TAIL and not is_available(index.language)
            language = None if missing else index.language or PLAIN
        options = SplitOptions(
            index.target if target is None else target,
            index.natural if natural is None else natural,
            language,
        )
        check_options(options)
        check_text(text, options)
        files: dict[str, bytes] = {}
        bases: dict[str, bytes] = {}
        for segment, data in folder_index.edited_segments(index, missing_ok=True):
            if digest(data) != (joined or {}).get(segment.file):
                files[segment.file], bases[segment.file] = data, folder_index.segment_base(index, segment)
        merged: Collection[str] = ()
        same = (index.target, index.natural, index.language)
        if text.data == base and (options.target, options.natural, options.language_of(text)) == same:
            segments = [
                segment if segment.file in files else replace(segment, based_on="")
                for segment in index.segments
                if segment.file in files or segment.start < segment.end
            ]
        else:
            segments, merged = _relocated(index, base, files, text, options)
        edited = [
            segment.file for segment in segments if segment.file in files and segment.file not in merged
        ]
        for number, segment in enumerate(segments):
            if segment.file in edited and (based_on := digest(bases[segment.file])) != segment.sha256:
                segments[number] = replace(segment, based_on=based_on)
        new = new_index(text, options, index.folder, segments)
        written, removed = write_split(new, text.data, index, {file: bases[file] for file in edited})
    known = {segment.file for segment in index.segments}
    return RefreshResult(
        new,
        tuple(name for name in written if name in known),
        tuple(name for name in written if name not in known),
        tuple(removed),
        tuple(edited),
        tuple(segment.file for segment in segments if segment.based_on),
        tuple(segment.file for segment in index.segments if segment.file in merged),
    )


def _relocated(
    index: SplitIndex, base: bytes, files: Mapping[str, bytes], text: SourceText, options: SplitOptions
) -> tuple[list[Segment], Collection[str]]:
    """The segments of the new text, and the edited files that it already contains. The other edited `files` each get a
    separate segment; files that are not edited keep the one that begins where theirs did."""
    data = text.data
    cuts = [*(segment.start for segment in index.segments), len(base)]
    moved = OffsetMap(base, data, cuts)
    new_cuts: dict[int, int] = {}  # of the cuts that are not inside a change
    merged = set()
    for segment in index.segments:
        if segment.file in files:
            edges = product(moved.locate(segment.start)[:2], moved.locate(segment.end)[:2])
            for start, end in edges:
                if data[start:end] == files[segment.file]:
                    merged.add(segment.file)
                    new_cuts[segment.start], new_cuts[segment.end] = start, end
    edited = [segment.file in files and segment.file not in merged for segment in index.segments]
    for number, cut in enumerate(cuts):
        low, high, inside = moved.locate(cut)
        if cut in new_cuts or (inside and 0 < cut < len(base)):
            continue
        after_edit, before_edit = number > 0 and edited[number - 1], number < len(edited) and edited[number]
        if (
            after_edit == before_edit
        ):  # inserted text belongs to the segment before if it fits or is indented deeper
            free = index.target - (cut - cuts[number - 1] if number else 0)
            fits = high - low <= free or _indent(data, low, high) > _indent(data, high, len(data))
            before_edit = cut == len(base) or (cut > 0 and fits)
        new_cuts[cut] = high if before_edit else low
    regions: dict[str, tuple[int, int]] = {}
    starts: dict[str, tuple[int, int]] = {}  # where the segment of a file may begin, likeliest first
    last = 0
    for segment, is_edited in zip(index.segments, edited, strict=True):
        low, high, inside = moved.locate(segment.start)
        if is_edited:
            start = max(last, new_cuts.get(segment.start, low))
            last = max(start, new_cuts.get(segment.end, moved.locate(segment.end)[1]))
            regions[segment.file] = start, last
        elif not inside and high < moved.locate(segment.end)[0]:  # some of its text remains
            starts[segment.file] = high, low
    spans = regions.values()
    kept = {*new_cuts.values(), *(edge for span in spans for edge in span)}
    kept = {cut for cut in kept if not any(start < cut < end for start, end in spans)}
    cut_spans, symbols = cut_text(text, options, sorted(cut for cut in kept if 0 < cut < len(data)))
    reasons = {start: reason for start, _, reason in cut_spans}
    bounds = {0, len(data), *reasons, *(edge for span in spans for edge in span)}
    outer = sorted(edge for edge in bounds if not any(start < edge < end for start, end in spans))
    pieces: list[tuple[int, int, str | None]] = [
        *((start, end, file) for file, (start, end) in regions.items()),
        *((start, end, None) for start, end in pairwise(outer) if (start, end) not in spans),
    ]
    pieces.sort(key=lambda piece: piece[:2])
    names = [file for _, _, file in pieces]
    free_pieces = {start: number for number, (start, _, file) in enumerate(pieces) if file is None}
    for file, candidates in starts.items():
        if (first := next((start for start in candidates if start in free_pieces), None)) is not None:
            names[free_pieces.pop(first)] = file
    suffix = suffix_of(index.segments[0].file if index.segments else text.path)
    new_names = fill_names(names, suffix)
    # Each insertion at one place makes a name longer.
    if any(len(name) - len(suffix) > _LONGEST_STEM for name in new_names):
        new_names = fill_names([name if name in regions else None for name in names], suffix)
    new_spans = [(start, end, reasons.get(start, "kept")) for start, end, _ in pieces]
    segments = describe_segments(data, new_spans, options.target, symbols())
    return [replace(segment, file=file) for segment, file in zip(segments, new_names, strict=True)], merged


def _indent(text: bytes, start: int, end: int) -> int:
    while start < end:
        stop = text.find(b"\n", start, end) + 1 or end
        line = text[start : min(stop, start + 1000)]
        if line.strip():
            return len(line) - len(line.lstrip())
        start = stop
    return 0


class ByteChange(NamedTuple):
    """The bytes `old` to `old_end` of one text, replaced by the bytes `new` to `new_end` of another."""

    old: int
    old_end: int
    new: int
    new_end: int


class OffsetMap:
    """The changes from one text to another, in order; maps offsets in the first to offsets in the second."""

    def __init__(self, old: bytes, new: bytes, cuts: Collection[int]) -> None:
        self.changes = changes(old, new, frozenset(cuts))
        self._ends = [change.old_end for change in self.changes]

    def locate(self, offset: int) -> tuple[int, int, bool]:
        """The range in the second text that corresponds to `offset`, and whether `offset` is inside a change; if it is,
        the range is the change's. Otherwise the range is empty unless text was inserted at `offset`."""
        number = bisect_left(self._ends, offset)
        if number == len(self.changes) or offset < self.changes[number].old:
            before = self.changes[number - 1] if number else ByteChange(0, 0, 0, 0)
            moved = offset - before.old_end + before.new_end
            return moved, moved, False
        old, old_end, new, new_end = self.changes[number]
        if old == old_end:
            return new, new_end, False
        if offset in (old, old_end):
            edge = new if offset == old else new_end
            return edge, edge, False
        return new, new_end, True


def changes(old: bytes, new: bytes, cuts: Collection[int] = ()) -> list[ByteChange]:
    """The replacements that turn `old` into `new`, in order, with at least one equal line between any two of them.

    An insertion or deletion with several equivalent positions is placed with its edge at one of `cuts`, which are
    offsets in `old`.
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
    old_at = [*accumulate(map(len, left), initial=head)]
    new_at = [*accumulate(map(len, right), initial=head)]
    ranges = diff_ranges(left, right)
    cut_lines = {number for number, at in enumerate(old_at) if at in cuts}
    result = []
    for number, (a, b, c, d) in enumerate(ranges):
        by = 0
        if cut_lines and (a == b or c == d):
            least = ranges[number - 1][1] + 1 if number else 0
            most = ranges[number + 1][0] - 1 if number + 1 < len(ranges) else len(left)
            text = right[c:d] if a == b else left[a:b]
            by = _slide(left, text, (a, b), (max(least, a - _FARTHEST), min(most, b + _FARTHEST)), cut_lines)
        result.append(ByteChange(old_at[a + by], old_at[b + by], new_at[c + by], new_at[d + by]))
    return result


def _slide(
    lines: Sequence[bytes],
    text: Sequence[bytes],
    span: tuple[int, int],
    limits: tuple[int, int],
    cut_lines: Collection[int],
) -> int:
    """The number of lines by which an insertion or deletion of `text` at `span` can move, within `limits`, to begin or
    end at one of `cut_lines`; both if possible, and the fewest lines; 0 for none."""
    first, last = span
    up = down = 0
    while first - up > limits[0] and lines[first - up - 1] == text[-1 - up % len(text)]:
        up += 1
    while last + down < limits[1] and lines[last + down] == text[down % len(text)]:
        down += 1
    steps = range(-up, down + 1)
    both = [by for by in steps if first + by in cut_lines and last + by in cut_lines]
    either = [by for by in steps if first + by in cut_lines or last + by in cut_lines]
    return min(both or either, key=abs, default=0)
