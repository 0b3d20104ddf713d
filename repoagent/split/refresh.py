"""Carry a split over to what its source is now: cuts that are still good stay, and so does every file that a person
has edited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.split.create import hashes, names, with_held
from repoagent.split.folder import (
    PLAIN,
    Made,
    Other,
    Text,
    Ways,
    check_text,
    check_ways,
    fill,
    indexed,
    language,
    source_of,
    suffix_of,
    text_of,
)
from repoagent.split.folder import cut as cut_text
from repoagent.split.folder_index import (
    Index,
    IndexedSegment,
    base_bytes,
    digest,
    edited,
    file_bytes,
    holding,
    index_path,
    read_index,
    segment_base,
)
from repoagent.split.folder_writer import finish, put
from repoagent.split.relocate import Carried, Places, cuts_of, place
from repoagent.syntax.languages import LONG_TAIL, at_hand, language_of

SAME = Other()


@dataclass(frozen=True)
class Refreshed:
    """What a refresh did, by file: `written` were given other text, `added` and `removed` are new and gone. `edited`
    are a person's and were left alone, those also in `to_merge` have to be merged with what the source has got there
    since; `merged` were edited, and the source has these edits by now."""

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
    text: Text | None = None,
    other: Other = SAME,
    joined: Mapping[str, str] | None = None,
) -> Refreshed:
    """Bring the split at `path` (a folder, or its index) to the present text of its source.

    `text` is that text where it is not to be found by the index: the file was renamed, or it comes from standard
    input. No file that a person has edited is written, but for those that are still as they were `joined` (their
    hash, by name); a segment file that is missing is made again.
    Raises Refused and UsageError as `read_index` and `find_text` do, and Busy; nothing is changed then.
    """
    if not index_path(path).is_file():
        read_index(path)  # which says what is wrong
    with holding(index_path(path).parent):
        index = finish(read_index(path, missing_ok=True))
        text = text or text_of(index, cwd)
        base = base_bytes(index)
        ways = Ways(
            index.target if other.target is None else other.target,
            index.natural if other.natural is None else other.natural,
            _language(index, base, text) if other.language is None else other.language,
        )
        check_ways(ways)
        check_text(text, ways)
        return _refresh(index, base, text, ways, joined or {})


def _language(index: Index, base: bytes, text: Text) -> str | None:
    """The language that was given when it was split; None when it was told by the file, or has no grammar here."""
    if language_of(index.source.path, base) == index.language:
        return None
    if index.language in LONG_TAIL and not at_hand(index.language):
        return None
    return index.language or PLAIN


def _refresh(index: Index, base: bytes, text: Text, ways: Ways, joined: Mapping[str, str]) -> Refreshed:
    mine = edited(index, missing_ok=True)
    files = {segment.file: file_bytes(index, segment) or b"" for segment in mine}
    mine = [segment for segment in mine if digest(files[segment.file]) != joined.get(segment.file)]
    files = {segment.file: files[segment.file] for segment in mine}
    bases = {s.file: segment_base(index, s) if s.based_on else base[s.start : s.end] for s in mine}
    merged: tuple[IndexedSegment, ...] = ()
    same = (index.target, index.natural, index.language)
    if text.data == base and (ways.target, ways.natural, language(text, ways)) == same:
        segments = tuple(
            s if s.file in files else replace(s, based_on="")
            for s in index.segments
            if s.file in files or s.start < s.end
        )
    else:
        places = place(index, base, files, bases, text.data)
        segments = _segments(index, base, text, ways, places)
        merged = places.merged
    held = set(files) - {segment.file for segment in merged}
    segments = tuple(_based(s, bases[s.file]) if s.file in held else s for s in segments)
    new = Index(index.folder, source_of(text), language(text, ways), ways.target, ways.natural, segments)
    made = _made(new, text.data, hashes(index), {name: bases[name] for name in held})
    if new != index or made.replaces or made.removed:
        put(made, index)
    known = {segment.file for segment in index.segments}
    return Refreshed(
        new,
        tuple(name for name in made.replaces if name in known),
        tuple(name for name in made.replaces if name not in known),
        tuple(made.removed),
        tuple(segment.file for segment in segments if segment.file in held),
        tuple(segment.file for segment in segments if segment.based_on),
        tuple(segment.file for segment in merged),
    )


def _segments(
    index: Index, base: bytes, text: Text, ways: Ways, places: Places
) -> tuple[IndexedSegment, ...]:
    kept = [cut for cut in places.cuts if 0 < cut < len(text.data)]
    pieces = with_held(cut_text(text, ways, kept), places.held, text.data, ways.target)
    held = {one.segment.file for one in places.held}
    free = [segment for segment in index.segments if segment.file not in held]
    known = names(free, Carried(base, text.data, cuts_of(index)), pieces)
    filled = fill(known, suffix_of(index.segments[0].file if index.segments else text.path))
    return tuple(indexed(piece, name, text.data) for (piece, _), name in zip(pieces, filled, strict=True))


def _based(segment: IndexedSegment, base: bytes) -> IndexedSegment:
    found = digest(base)
    return segment if found == segment.sha256 else replace(segment, based_on=found)


def _made(new: Index, base: bytes, present: Mapping[str, str], held: Mapping[str, bytes]) -> Made:
    files = {segment.file: segment.sha256 for segment in new.segments}
    return Made(
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
