"""Split a change into pieces, and build the change that has only the selected ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import SYMLINK, FileChange

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)", re.DOTALL)
_OLD = (" ", "-")
_NEW = (" ", "+")


@dataclass(frozen=True)
class Hunk:
    """Lines of a diff with their markers; `old` and `new` are the start rows, from 0."""

    old: int
    new: int
    lines: tuple[str, ...]
    section: str = ""

    @property
    def text(self) -> str:
        old, new = _count(self.lines, _OLD), _count(self.lines, _NEW)
        # where a side has no lines git names the line before
        head = f"@@ -{self.old + bool(old)},{old} +{self.new + bool(new)},{new} @@{self.section}"
        return "".join(f"{line}\n" for line in (head, *self.lines))


@dataclass(frozen=True)
class Piece:
    """A selectable piece: a hunk of a change, its rename, its new mode, or the file as a whole.

    `change` is the index into the sequence of changes.
    """

    change: int
    kind: Literal["file", "rename", "mode", "hunk"]
    hunk: Hunk | None = None


def pieces(changes: Sequence[FileChange]) -> tuple[Piece, ...]:
    """The pieces of `changes`, in order. A new, a deleted and a binary file are one piece."""
    return tuple(piece for place, change in enumerate(changes) for piece in _pieces_of(place, change))


def split(piece: Piece) -> tuple[Piece, ...]:
    """The parts of a hunk that are separated by context; the piece alone if it cannot be split."""
    if piece.hunk is None:
        return (piece,)
    parts = tuple(_split(piece.hunk))
    return tuple(replace(piece, hunk=part) for part in parts) if len(parts) > 1 else (piece,)


def select(changes: Sequence[FileChange], accepted: Collection[Piece]) -> list[FileChange]:
    """`changes` with only the accepted pieces, byte for byte; changes that become empty are omitted.

    Raises Refused if an accepted piece needs a path that a rejected one would have freed, ValueError for a hunk of
    other changes.
    """
    chosen = [
        part
        for place, change in enumerate(changes)
        if (part := _select(change, [piece for piece in accepted if piece.change == place])) is not None
    ]
    occupied = _freed(changes) - _freed(chosen)
    if stuck := sorted(change.name for change in chosen if _arrives(change) and change.name in occupied):
        raise Refused(f"the selected hunks conflict: {stuck[0]} would still exist")
    return chosen


def parse_hunks(diff: str) -> tuple[str, tuple[Hunk, ...]]:
    """The header and the hunks of the canonical diff of one file. Raises ValueError for anything else."""
    lines = diff.removesuffix("\n").split("\n") if diff else []
    place = next((n for n, line in enumerate(lines) if HUNK.fullmatch(line)), len(lines))
    header = "".join(f"{line}\n" for line in lines[:place])
    hunks = []
    while place < len(lines):
        match = HUNK.fullmatch(lines[place])
        if match is None:
            raise ValueError(f"not a hunk header: {lines[place]!r}")
        old_count, new_count = int(match[2] or 1), int(match[4] or 1)
        end = hunk_end(lines, place + 1, old_count, new_count)
        old, new = int(match[1]) - bool(old_count), int(match[3]) - bool(new_count)
        hunks.append(Hunk(old, new, tuple(lines[place + 1 : end]), match[5]))
        place = end
    return header, tuple(hunks)


def hunk_end(lines: Sequence[str], place: int, old: int, new: int) -> int:
    """The end of a hunk of `old` and `new` lines that begins at `place`; its text may look like a header."""
    while place < len(lines) and (old > 0 or new > 0 or lines[place].startswith("\\")):
        old -= lines[place].startswith(_OLD)
        new -= lines[place].startswith(_NEW)
        place += 1
    return place


def _pieces_of(place: int, change: FileChange) -> Iterator[Piece]:
    if _is_whole(change):
        yield Piece(place, "file")
        return
    if change.is_rename:
        yield Piece(place, "rename")
    if change.mode != change.old_mode:
        yield Piece(place, "mode")
    if change.before != change.after:
        from repoagent.patch.render import canonical_diff

        _, hunks = parse_hunks(canonical_diff([change]))
        yield from (Piece(place, "hunk", hunk) for hunk in hunks)
        if not hunks:  # binary
            yield Piece(place, "file")


def _is_whole(change: FileChange) -> bool:
    """Whether there is no file before or after, or it becomes a symbolic link or ceases to be one."""
    becomes_other = change.mode != change.old_mode and SYMLINK in (change.mode, change.old_mode)
    return change.is_new or change.is_deletion or becomes_other


def _split(hunk: Hunk) -> Iterator[Hunk]:
    blocks = [
        (kind, [line for _, line in group])
        for kind, group in groupby(_kinds(hunk.lines), lambda item: item[0])
    ]
    old, new = hunk.old, hunk.new
    for place, (kind, lines) in enumerate(blocks):
        if kind == "change":
            before = blocks[place - 1][1] if place else []
            after = blocks[place + 1][1] if place + 1 < len(blocks) else []
            whole = (*before, *lines, *after)
            yield Hunk(old - len(before), new - len(before), whole, hunk.section)
        old += _count(lines, _OLD)
        new += _count(lines, _NEW)


def _kinds(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each line with its kind; git's remark on a missing last newline goes with the line before it."""
    kind = "context"
    for line in lines:
        if not line.startswith("\\"):
            kind = "change" if line[0] in "+-" else "context"
        yield kind, line


def _select(change: FileChange, accepted: Collection[Piece]) -> FileChange | None:
    kinds = {piece.kind for piece in accepted}
    if _is_whole(change):
        return change if kinds else None
    part = replace(
        change,
        path=change.path if "rename" in kinds else change.old_path,
        mode=change.mode if "mode" in kinds else change.old_mode,
        after=change.after if "file" in kinds else _spliced(change, accepted),
    )
    same = (part.path, part.mode, part.after) == (part.old_path, part.old_mode, part.before)
    return None if same else part


def _spliced(change: FileChange, accepted: Iterable[Piece]) -> bytes:
    """The bytes before, with the lines of the accepted hunks from the bytes after."""
    before, after = _lines(change.before or b""), _lines(change.after or b"")
    out: list[bytes] = []
    done = 0
    for hunk in sorted((piece.hunk for piece in accepted if piece.hunk), key=lambda hunk: hunk.old):
        old, new = hunk.old, hunk.new
        for kind, group in groupby(_kinds(hunk.lines), lambda item: item[0]):
            lines = [line for _, line in group]
            old_end, new_end = old + _count(lines, _OLD), new + _count(lines, _NEW)
            _expect(lines, _OLD, before[old:old_end])
            _expect(lines, _NEW, after[new:new_end])
            if kind == "change":
                out += before[done:old] + after[new:new_end]
                done = old_end
            old, new = old_end, new_end
    return b"".join(out + before[done:])


def _expect(lines: Iterable[str], markers: tuple[str, ...], there: Iterable[bytes]) -> None:
    shown = [line[1:].encode("utf-8", "surrogateescape") for line in lines if line.startswith(markers)]
    if shown != [line.removesuffix(b"\n") for line in there]:
        raise ValueError("the hunk is not part of this change")


def _lines(data: bytes) -> list[bytes]:
    """Lines as git counts them, each with its newline."""
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _count(lines: Iterable[str], markers: tuple[str, ...]) -> int:
    return sum(line.startswith(markers) for line in lines)


def _freed(changes: Iterable[FileChange]) -> set[str]:
    return {change.old_path for change in changes if change.old_path and change.old_path != change.path}


def _arrives(change: FileChange) -> bool:
    """Whether the change puts a file where it had none."""
    return change.path is not None and change.path != change.old_path
