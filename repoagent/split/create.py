"""Split a text into a folder, new or in place of an earlier split.

Also for a refresh: `with_held` keeps edited segments whole, and `names` matches new segments with old files.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from repoagent.errors import Refused, UsageError
from repoagent.git.worktree import layout
from repoagent.split.folder import SourceText, SplitOptions, SplitPlan, new_index
from repoagent.split.folder_index import (
    LOCK,
    NAME,
    STAGED,
    Index,
    IndexedSegment,
    digest,
    edited_segments,
    lock_split,
    read_index,
)
from repoagent.split.folder_writer import finish, put
from repoagent.split.pack import Segment
from repoagent.split.relocate import EditedRegion, OffsetMap
from repoagent.storage.atomic import read_regular
from repoagent.storage.folders import open_folder, resolve_above

_NAMED = 5  # files that a message names


def create(text: SourceText, options: SplitOptions, folder: Path) -> Index:
    """Write the split of `text` into `folder`, which is new, empty, or contains an earlier split of the same file.

    Raises Refused if it contains anything else or edited segments that are not merged, and on a system error;
    UsageError if it is not a folder or is in a git directory. Nothing is written then.
    """
    folder = resolve_above(folder.parent) / folder.name
    _check_place(folder, text)
    existing_split(folder, text)
    index = new_index(text, options, folder)
    with _new_folder(folder), lock_split(folder):
        old = existing_split(folder, text)
        put(_plan(index, text.data, old), old)
    return index


def existing_split(folder: Path, text: SourceText) -> Index | None:
    """The earlier split of the same file in `folder`; None if it is empty or missing. Raises as `create`."""
    if not folder.parent.is_dir():
        raise UsageError(f"no such folder: {folder.parent}; create it, or use another one with -o")
    if os.path.lexists(folder) and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; use another one with -o")
    try:
        with open_folder(folder) as opened, os.scandir(opened) as entries:
            names = {entry.name for entry in entries}
    except FileNotFoundError:
        return None
    if NAME not in names:
        if names - {LOCK, STAGED}:
            raise Refused(f"{folder} is not empty and not a split; use another folder with -o")
        return None
    old = read_index(folder, missing_ok=True)
    if old.source.path != text.path:
        raise Refused(
            f"{folder} contains the split of {old.source.path or 'standard input'}; use another folder with -o"
        )
    changed = [segment.file for segment in edited_segments(old, missing_ok=True)]
    if changed:
        raise Refused(
            f"{folder} has edits that are not merged ({list_some(changed)}); use --join to merge them, or --refresh to "
            "keep them"
        )
    return old


def list_some(names: Collection[str]) -> str:
    """`names`, or the first of them and how many more."""
    listed = list(names)[:_NAMED]
    more = len(names) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more else "")


def _check_place(folder: Path, text: SourceText) -> None:
    place = Path(os.path.realpath(folder))
    refused = ".git" in place.parts
    if text.worktree is not None:
        own = (text.worktree.git_dir, text.worktree.common_dir)
        ours = layout(text.worktree).splits  # in a bare repository that is in the git directory
        refused = not place.is_relative_to(ours) and (
            refused or any(place.is_relative_to(path) for path in own)
        )
    if refused:
        raise UsageError(f"{folder} is in a git directory; use another folder with -o")


@contextmanager
def _new_folder(folder: Path) -> Iterator[None]:
    """Create `folder` if needed, and remove it again on failure if it was created here."""
    new = not folder.exists()
    with open_folder(folder, create=True):
        pass
    try:
        yield
    except BaseException:
        if new and not os.path.lexists(folder / NAME):
            with suppress(OSError):
                (folder / LOCK).unlink(missing_ok=True)
                folder.rmdir()
        raise


def _plan(index: Index, base: bytes, old: Index | None) -> SplitPlan:
    old = finish(old) if old else None
    present = hashes(old)
    files = {segment.file: segment.sha256 for segment in index.segments}
    return SplitPlan(
        index,
        base,
        {name: present.get(name, "") for name, wanted in files.items() if present.get(name) != wanted},
        {name: found for name, found in present.items() if name not in files},
    )


def hashes(index: Index | None) -> dict[str, str]:
    """The hash of each segment's file that is there."""
    found = {}
    for segment in index.segments if index else ():
        data = read_regular(index.folder / segment.file) if index else None
        if data is not None:
            found[segment.file] = digest(data)
    return found


Piece = tuple[Segment, str | None]  # and the file that it has, if it is an edited one's


def with_held(
    found: Sequence[Segment], held: Sequence[EditedRegion], data: bytes, target: int
) -> list[Piece]:
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


def names(free: Sequence[IndexedSegment], carried: OffsetMap, pieces: Sequence[Piece]) -> list[str | None]:
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
    """Line numbers at byte offsets of a text whose segments are known."""

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
