"""Update a split to the current text of its source, keeping good cuts and every edited segment file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.split.create import hashes, names, with_held
from repoagent.split.folder import (
    PLAIN,
    OptionChanges,
    SourceText,
    SplitOptions,
    SplitPlan,
    check_options,
    check_text,
    current_source,
    cut_text,
    fill_names,
    indexed,
    language,
    source_of,
    suffix_of,
)
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
from repoagent.split.relocate import OffsetMap, Relocation, cuts_of, relocate
from repoagent.syntax.languages import LONG_TAIL, is_available, language_of

SAME = OptionChanges()


@dataclass(frozen=True)
class RefreshResult:
    """The files that a refresh has `written`, `added` and `removed`. Those `edited` by the user were left alone; those
    also in `to_merge` conflict with later changes of the source. The edits of the `merged` ones are in the source."""

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

    `text` is that text if the index does not lead to it: the file was renamed, or it comes from standard input. Edited
    files are not written, except those that are unchanged since they were `joined` (their hashes by name); missing
    segment files are written again. Raises Busy, and Refused and UsageError as `read_index` and `find_text`; nothing
    is changed then.
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
    mine = edited_segments(index, missing_ok=True)
    files = {segment.file: file_bytes(index, segment) or b"" for segment in mine}
    mine = [segment for segment in mine if digest(files[segment.file]) != joined.get(segment.file)]
    files = {segment.file: files[segment.file] for segment in mine}
    bases = {s.file: segment_base(index, s) if s.based_on else base[s.start : s.end] for s in mine}
    merged: tuple[IndexedSegment, ...] = ()
    same = (index.target, index.natural, index.language)
    if text.data == base and (options.target, options.natural, language(text, options)) == same:
        segments = tuple(
            s if s.file in files else replace(s, based_on="")
            for s in index.segments
            if s.file in files or s.start < s.end
        )
    else:
        places = relocate(index, base, files, bases, text.data)
        segments = _segments(index, base, text, options, places)
        merged = places.merged
    held = set(files) - {segment.file for segment in merged}
    segments = tuple(_based(s, bases[s.file]) if s.file in held else s for s in segments)
    new = Index(
        index.folder, source_of(text), language(text, options), options.target, options.natural, segments
    )
    plan = _plan(new, text.data, hashes(index), {name: bases[name] for name in held})
    if new != index or plan.replaces or plan.removed:
        put(plan, index)
    known = {segment.file for segment in index.segments}
    return RefreshResult(
        new,
        tuple(name for name in plan.replaces if name in known),
        tuple(name for name in plan.replaces if name not in known),
        tuple(plan.removed),
        tuple(segment.file for segment in segments if segment.file in held),
        tuple(segment.file for segment in segments if segment.based_on),
        tuple(segment.file for segment in merged),
    )


def _segments(
    index: Index, base: bytes, text: SourceText, options: SplitOptions, places: Relocation
) -> tuple[IndexedSegment, ...]:
    kept = [cut for cut in places.cuts if 0 < cut < len(text.data)]
    pieces = with_held(cut_text(text, options, kept), places.held, text.data, options.target)
    held = {one.segment.file for one in places.held}
    free = [segment for segment in index.segments if segment.file not in held]
    known = names(free, OffsetMap(base, text.data, cuts_of(index)), pieces)
    filled = fill_names(known, suffix_of(index.segments[0].file if index.segments else text.path))
    return tuple(indexed(piece, name, text.data) for (piece, _), name in zip(pieces, filled, strict=True))


def _based(segment: IndexedSegment, base: bytes) -> IndexedSegment:
    found = digest(base)
    return segment if found == segment.sha256 else replace(segment, based_on=found)


def _plan(new: Index, base: bytes, present: Mapping[str, str], held: Mapping[str, bytes]) -> SplitPlan:
    files = {segment.file: segment.sha256 for segment in new.segments}
    return SplitPlan(
        new,
        base,
        {
            name: present.get(name, "")
            for name, wanted in files.items()
            if name not in held and present.get(name) != wanted
        },
        {name: found for name, found in present.items() if name not in files},
        {segment.file: held[segment.file] for segment in new.segments if segment.based_on},
    )
