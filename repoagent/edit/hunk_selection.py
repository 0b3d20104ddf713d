"""Split a change into pieces, and build a change from the selected pieces."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
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
        """The hunk as in a diff, with its header."""
        old, new = _count(self.lines, _OLD), _count(self.lines, _NEW)
        # for a side without lines git uses the number of the previous line
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
    """The pieces of `changes`, in order. A new, deleted or binary file is one piece."""
    result: list[Piece] = []
    for number, change in enumerate(changes):
        if _is_whole(change):
            result.append(Piece(number, "file"))
            continue
        result += [Piece(number, "rename")] if change.is_rename else []
        result += [Piece(number, "mode")] if change.mode != change.old_mode else []
        if change.before != change.after:
            from repoagent.patch.render import canonical_diff

            _, hunks = parse_hunks(canonical_diff([change]))
            result += [Piece(number, "hunk", hunk) for hunk in hunks] or [Piece(number, "file")]  # binary
    return tuple(result)


def _is_whole(change: FileChange) -> bool:
    """Whether the file is new, deleted, or changes from or to a symbolic link."""
    changes_type = change.mode != change.old_mode and SYMLINK in (change.mode, change.old_mode)
    return change.is_new or change.is_deletion or changes_type


def split(piece: Piece) -> tuple[Piece, ...]:
    """The parts of a hunk that are separated by context lines; the piece itself if it cannot be split."""
    blocks = _blocks(piece.hunk) if piece.hunk is not None else []
    parts = []
    for number, (changed, lines, old, new) in enumerate(blocks):
        if piece.hunk is not None and changed:
            before = blocks[number - 1][1] if number else []
            after = blocks[number + 1][1] if number + 1 < len(blocks) else []
            start = (old - len(before), new - len(before))
            hunk = Hunk(*start, (*before, *lines, *after), piece.hunk.section)
            parts.append(replace(piece, hunk=hunk))
    return tuple(parts) if len(parts) > 1 else (piece,)


def _blocks(hunk: Hunk) -> list[tuple[bool, list[str], int, int]]:
    """The runs of changed lines and of context: whether changed, the lines, and the old and new start row."""
    blocks: list[tuple[bool, list[str], int, int]] = []
    old, new = hunk.old, hunk.new
    for line in hunk.lines:
        changed = line[0] in "+-"
        # "\ No newline at end of file" belongs to the previous line
        if not blocks or (blocks[-1][0] != changed and not line.startswith("\\")):
            blocks.append((changed, [], old, new))
        blocks[-1][1].append(line)
        old += line.startswith(_OLD)
        new += line.startswith(_NEW)
    return blocks


def select(changes: Sequence[FileChange], accepted: Collection[Piece]) -> list[FileChange]:
    """`changes` reduced to the accepted pieces, byte for byte; omits changes that become empty.

    Raises Refused if an accepted piece needs a path that a rejected piece would have freed, ValueError for a hunk that
    is not from `changes`.
    """
    chosen = []
    for number, change in enumerate(changes):
        own = [piece for piece in accepted if piece.change == number]
        kinds = {piece.kind for piece in own}
        if _is_whole(change):
            chosen += [change] if kinds else []
            continue
        part = replace(
            change,
            path=change.path if "rename" in kinds else change.old_path,
            mode=change.mode if "mode" in kinds else change.old_mode,
            after=change.after if "file" in kinds else _spliced(change, own),
        )
        if (part.path, part.mode, part.after) != (part.old_path, part.old_mode, part.before):
            chosen.append(part)
    freed, still_freed = ({c.old_path for c in group if c.old_path != c.path} for group in (changes, chosen))
    for change in sorted(chosen, key=lambda change: change.name):
        if change.path and change.path != change.old_path and change.path in freed - still_freed:
            raise Refused(f"cannot create {change.name}: the removal of the existing file is not selected")
    return chosen


def _spliced(change: FileChange, accepted: Iterable[Piece]) -> bytes:
    """The old bytes, with the lines of the accepted hunks taken from the new bytes."""
    before, after = ((data or b"").split(b"\n") for data in (change.before, change.after))
    before, after = ([*(line + b"\n" for line in lines[:-1]), lines[-1]] for lines in (before, after))
    out: list[bytes] = []
    done = 0
    for hunk in sorted((piece.hunk for piece in accepted if piece.hunk), key=lambda hunk: hunk.old):
        for changed, lines, old, new in _blocks(hunk):
            ends = (old + _count(lines, _OLD), new + _count(lines, _NEW))
            for markers, actual in ((_OLD, before[old : ends[0]]), (_NEW, after[new : ends[1]])):
                quoted = (line[1:] for line in lines if line.startswith(markers))
                if [line.encode("utf-8", "surrogateescape") for line in quoted] != [
                    line.removesuffix(b"\n") for line in actual
                ]:
                    raise ValueError("the hunk is not part of this change")
            if changed:
                out += before[done:old] + after[new : ends[1]]
                done = ends[0]
    return b"".join(out + before[done:])


def _count(lines: Iterable[str], markers: tuple[str, ...]) -> int:
    return sum(line.startswith(markers) for line in lines)


def parse_hunks(diff: str) -> tuple[str, tuple[Hunk, ...]]:
    """The header and the hunks of the canonical diff of one file. Raises ValueError for any other text."""
    lines = diff.removesuffix("\n").split("\n") if diff else []
    at = next((number for number, line in enumerate(lines) if HUNK.fullmatch(line)), len(lines))
    header = "".join(f"{line}\n" for line in lines[:at])
    hunks = []
    while at < len(lines):
        match = HUNK.fullmatch(lines[at])
        if match is None:
            raise ValueError(f"not a hunk header: {lines[at]!r}")
        old_count, new_count = int(match[2] or 1), int(match[4] or 1)
        end = hunk_end(lines, at + 1, old_count, new_count)
        old, new = int(match[1]) - bool(old_count), int(match[3]) - bool(new_count)
        hunks.append(Hunk(old, new, tuple(lines[at + 1 : end]), match[5]))
        at = end
    return header, tuple(hunks)


def hunk_end(lines: Sequence[str], at: int, old: int, new: int) -> int:
    """The index after the hunk that begins at `at` and has `old` lines of the old file and `new` lines of the new one.
    Lines are counted, because their text may look like a header."""
    while at < len(lines) and (old > 0 or new > 0 or lines[at].startswith("\\")):
        old -= lines[at].startswith(_OLD)
        new -= lines[at].startswith(_NEW)
        at += 1
    return at
