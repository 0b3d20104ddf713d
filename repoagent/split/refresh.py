"""Update a split to the current text of its source, keeping good cuts and every edited segment file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.split.folder_index import (
    Index,
    IndexedSegment,
    base_bytes,
    digest,
    edited_segments,
    file_bytes,
    index_path,
    lock_split,
    read_index,
    segment_base,
)
from repoagent.split.folder_writer import finish, put
from repoagent.split.pack import Segment
from repoagent.split.relocate import Relocation, relocate
from repoagent.split.source import SourceText, current_source
from repoagent.split.split_plan import (
    PLAIN,
    OptionChanges,
    SplitOptions,
    check_options,
    check_text,
    cut_text,
    fill_names,
    indexed,
    language,
    new_index,
    plan_split,
    suffix_of,
)
from repoagent.syntax.languages import LONG_TAIL, is_available, language_of

SAME = OptionChanges()


@dataclass(frozen=True)
class RefreshResult:
    """The files that a refresh has `written`, `added` and `removed`. Files `edited` by the user are unchanged; for
    those also in `to_merge` the source has changed too. The source already has the edits of the `merged` files."""

    index: Index
    written: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    to_merge: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()


def refresh(
    path: Path,
    cwd: Path,
    *,
    text: SourceText | None = None,
    other: OptionChanges = SAME,
    joined: Mapping[str, str] | None = None,
) -> RefreshResult:
    """Update the split at `path` (a folder, or its index) to the current text of its source.

    `text` is that text if it cannot be found by the index: the file was renamed, or it comes from standard input.
    Edited files are not written, unless they are unchanged since they were `joined` (their hashes by name); missing
    segment files are written again. Raises Busy, and Refused and UsageError as `read_index` and `find_text`, before any
    change.
    """
    if not index_path(path).is_file():
        read_index(path)  # raises the error
    with lock_split(index_path(path).parent):
        index = finish(read_index(path, missing_ok=True))
        text = text or current_source(index, cwd)
        base = base_bytes(index)
        options = SplitOptions(
            index.target if other.target is None else other.target,
            index.natural if other.natural is None else other.natural,
            _language(index, base, text) if other.language is None else other.language,
        )
        check_options(options)
        check_text(text, options)
        return _refresh(index, base, text, options, joined or {})


def _language(index: Index, base: bytes, text: SourceText) -> str | None:
    """The language option of the split; None if the file implied the language, or its grammar is missing here."""
    if language_of(index.source.path, base) == index.language:
        return None
    if index.language in LONG_TAIL and not is_available(index.language):
        return None
    return index.language or PLAIN


def _refresh(
    index: Index, base: bytes, text: SourceText, options: SplitOptions, joined: Mapping[str, str]
) -> RefreshResult:
    files: dict[str, bytes] = {}
    bases: dict[str, bytes] = {}
    for segment in edited_segments(index, missing_ok=True):
        data = file_bytes(index, segment) or b""
        if digest(data) != joined.get(segment.file):
            files[segment.file] = data
            bases[segment.file] = segment_base(index, segment)
    merged: frozenset[str] = frozenset()
    same = (index.target, index.natural, index.language)
    if text.data == base and (options.target, options.natural, language(text, options)) == same:
        segments = [
            segment if segment.file in files else replace(segment, based_on="")
            for segment in index.segments
            if segment.file in files or segment.start < segment.end
        ]
    else:
        relocation = relocate(index, base, files, text.data)
        segments = _segments(index, text, options, relocation)
        merged = relocation.merged
    unmerged = {file: bases[file] for file in files if file not in merged}
    segments = [_with_base(segment, unmerged.get(segment.file)) for segment in segments]
    new = new_index(text, options, index.folder, segments)
    plan = plan_split(new, text.data, index, unmerged)
    if new != index or plan.replaces or plan.removed:
        put(plan, index)
    known = {segment.file for segment in index.segments}
    return RefreshResult(
        new,
        tuple(name for name in plan.replaces if name in known),
        tuple(name for name in plan.replaces if name not in known),
        tuple(plan.removed),
        tuple(segment.file for segment in segments if segment.file in unmerged),
        tuple(segment.file for segment in segments if segment.based_on),
        tuple(segment.file for segment in index.segments if segment.file in merged),
    )


def _with_base(segment: IndexedSegment, base: bytes | None) -> IndexedSegment:
    """The segment, with the hash of the text that its edited file is based on if that is not its part of the source."""
    based_on = "" if base is None else digest(base)
    return segment if based_on in ("", segment.sha256) else replace(segment, based_on=based_on)


def _segments(
    index: Index, text: SourceText, options: SplitOptions, relocation: Relocation
) -> list[IndexedSegment]:
    """The segments of the new text. Each edited file has a separate segment; other files keep the segment that begins
    where theirs did."""
    data, regions = text.data, relocation.regions
    inside = {cut for start, end in regions.values() for cut in relocation.cuts if start < cut < end}
    kept = {*relocation.cuts, *(edge for span in regions.values() for edge in span)} - inside
    parts = cut_text(text, options, sorted(cut for cut in kept if 0 < cut < len(data)))
    edges = {
        0,
        len(data),
        *(part.start for part in parts),
        *(edge for span in regions.values() for edge in span),
    }
    outer = sorted(edge for edge in edges if not any(start < edge < end for start, end in regions.values()))
    pieces: list[tuple[int, int, str | None]] = [
        *((start, end, file) for file, (start, end) in regions.items()),
        *((start, end, None) for start, end in pairwise(outer) if (start, end) not in regions.values()),
    ]
    pieces.sort(key=lambda piece: piece[:2])
    names = [file for _, _, file in pieces]
    free = {start: number for number, (start, _, file) in enumerate(pieces) if file is None}
    for file, candidates in relocation.starts.items():
        if (start := next((start for start in candidates if start in free), None)) is not None:
            names[free.pop(start)] = file
    files = fill_names(names, suffix_of(index.segments[0].file if index.segments else text.path))
    whole = {(part.start, part.end): part for part in parts}
    segments = [
        whole.get((start, end)) or _part(start, end, data, options.target, parts) for start, end, _ in pieces
    ]
    return [indexed(segment, file, data) for segment, file in zip(segments, files, strict=True)]


def _part(start: int, end: int, data: bytes, target: int, parts: Sequence[Segment]) -> Segment:
    """A segment that is not one of `parts`, those of the splitter."""
    first = data.count(b"\n", 0, start) + 1
    breaks = data.count(b"\n", start, end)
    at_line_start = start == 0 or data.endswith(b"\n", 0, start)
    part = Segment(
        start,
        end,
        first,
        first + breaks - (start == end or data.endswith(b"\n", 0, end)),
        "kept" if start else "start",
        oversize=end - start > target,
        inside_line=not at_line_start,
    )
    return replace(part, outline=parts[0].outline) if parts else part
