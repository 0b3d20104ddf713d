"""Split a change into pieces, and build a change from the selected ones."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import REGULAR, SYMLINK, Content, FileChange
from repoagent.patch.render import Hunk, hunks_of


@dataclass(frozen=True)
class Piece:
    """A hunk of change number `change`, its rename, its new mode, or the file as a whole."""

    change: int
    kind: Literal["file", "rename", "mode", "hunk"]
    hunk: Hunk | None = None


def pieces(changes: Sequence[FileChange]) -> tuple[Piece, ...]:
    """The pieces of `changes`, in order. A new, deleted or binary file is one piece."""
    result: list[Piece] = []
    for number, change in enumerate(changes):
        if _is_whole(change):
            result.append(Piece(number, "file"))
            continue
        result += [Piece(number, "rename")] if change.is_rename else []
        result += [Piece(number, "mode")] if change.mode != change.old_mode else []
        if change.before != change.after:
            hunks = [Piece(number, "hunk", hunk) for hunk in hunks_of(change)]
            result += hunks or [Piece(number, "file")]  # binary
    return tuple(result)


def _is_whole(change: FileChange) -> bool:
    """Whether the file is new, deleted, or changes from or to a symbolic link."""
    changes_type = change.mode != change.old_mode and SYMLINK in (change.mode, change.old_mode)
    return change.is_new or change.is_deletion or changes_type


def split(piece: Piece) -> tuple[Piece, ...]:
    """The parts of a hunk between lines of context; the piece itself if it cannot be split."""
    if piece.hunk is None:
        return (piece,)
    ranges = piece.hunk.ranges
    starts = [piece.hunk.start, *(end for _, end, _, _ in ranges[:-1])]
    ends = [*(start for start, _, _, _ in ranges[1:]), piece.hunk.end]
    return tuple(
        replace(piece, hunk=replace(piece.hunk, ranges=(part,), start=start, end=end))
        for part, start, end in zip(ranges, starts, ends, strict=True)
    )


def select(changes: Sequence[FileChange], accepted: Collection[Piece]) -> list[FileChange]:
    """`changes`, reduced byte for byte to the `accepted` pieces or parts of pieces; omits empty changes.

    Raises Refused if an accepted piece needs a path that a rejected piece would have freed.
    """
    chosen = []
    for number, change in enumerate(changes):
        own = [piece for piece in accepted if piece.change == number]
        kinds = {piece.kind for piece in own}
        if _is_whole(change):
            chosen += [change] if kinds else []
            continue
        path = change.path if "rename" in kinds else change.old_path
        mode = change.mode if "mode" in kinds else change.old_mode
        after = change.after or b""
        if "file" not in kinds:  # the old bytes, with the ranges of the accepted hunks from the new bytes
            before, new = (io.BytesIO(data or b"").readlines() for data in (change.before, change.after))
            lines, done = list[bytes](), 0
            for a, b, c, d in sorted(part for piece in own if piece.hunk for part in piece.hunk.ranges):
                lines += before[done:a] + new[c:d]
                done = b
            after = b"".join(lines + before[done:])
        part = FileChange(change.old_path, path, change.old, Content(after, mode or REGULAR))
        chosen += [] if part.is_noop else [part]
    freed, still_freed = ({c.old_path for c in group if c.old_path != c.path} for group in (changes, chosen))
    for change in sorted(chosen, key=lambda change: change.name):
        if change.path and change.path != change.old_path and change.path in freed - still_freed:
            raise Refused(f"cannot create {change.name}: the removal of the existing file is not selected")
    return chosen
