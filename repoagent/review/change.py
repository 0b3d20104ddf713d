"""The change under review: its files, their blobs before and after, and the lines that differ, as in a diff."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import Literal, NamedTuple

from repoagent.dataclass import dataclass

Status = Literal["added", "modified", "deleted", "renamed", "copied", "type changed"]
Kind = Literal["staged", "worktree", "range", "commit", "diff"]


class ChangedLines(NamedTuple):
    """A hunk without context. Lines include their line endings.

    `removed` starts at line `old`, and `added` at line `new`, both from 1. For an empty side, this is the number of the
    line before it.
    """

    old: int
    removed: tuple[bytes, ...]
    new: int
    added: tuple[bytes, ...]


class ChangedFile(NamedTuple):
    """One file of the change. Blobs are full object names, and modes are octal; both are "" if missing."""

    path: str  # after the change, or before it if deleted; relative to the top, decoded with os.fsdecode
    status: Status
    old_path: str  # differs from `path` only if renamed or copied
    old_blob: str
    new_blob: str
    old_mode: str
    new_mode: str


def split_lines(text: bytes) -> list[bytes]:
    """The lines of `text` with their endings; as in git, only a line feed ends a line."""
    return io.BytesIO(text).readlines()


class ChangedTexts:
    """Reads the texts of changed files on demand. This base class has no texts."""

    def old(self, file: ChangedFile) -> bytes | None:
        """The old text; None if it does not exist or is unavailable."""
        return None

    def new(self, file: ChangedFile) -> bytes | None:
        """The new text, as git stores it; None if it does not exist or is unavailable."""
        old = b"" if file.status == "added" else self.old(file)
        return None if old is None or file.status == "deleted" else apply_hunks(old, self.lines(file))

    def lines(self, file: ChangedFile) -> tuple[ChangedLines, ...]:
        """The lines that differ, as hunks without context; () for a binary file."""
        return ()


@dataclass(frozen=True, eq=False, repr=False)
class Change:
    kind: Kind
    title: str
    base: str = ""  # commit; "" on an unborn branch and for a diff
    head: str = ""  # commit; "" for the index, the work tree and a diff
    message: str = ""  # of the commit or commits, "" before the commit
    earlier: frozenset[str] = frozenset()  # paths changed earlier on the branch or in the range: not missing
    author: bytes = b""  # "Name <mail>"; b"" if unknown
    parents: tuple[str, ...] = ()  # the other parents of a merge; the first one is `base`
    files: tuple[ChangedFile, ...] = ()
    texts: ChangedTexts = field(default_factory=ChangedTexts)
    own: bool = False  # pushed by the user, so its dismissals count


_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def hunk_header(line: bytes) -> tuple[int, int, int, int] | None:
    """The old start, old length, new start and new length of a hunk header; None for any other line."""
    match = _HUNK.match(line)
    if match is None:
        return None
    old, old_count, new, new_count = (1 if part is None else int(part) for part in match.groups())
    return old, old_count, new, new_count


def read_hunk(lines: Sequence[bytes], at: int) -> tuple[list[ChangedLines], int]:
    """Parse the hunk whose header is line `at`; return its changed parts and the index of the line after it."""
    header = hunk_header(lines[at])
    if header is None:
        return [], at + 1
    old, old_left, new, new_left = header
    # for an empty side git writes the number of the line before
    old, new = old + (old_left == 0), new + (new_left == 0)
    parts: list[ChangedLines] = []
    removed: list[bytes] = []
    added: list[bytes] = []
    at += 1

    def close() -> None:
        if removed or added:
            old_start = old - len(removed) - (not removed)
            new_start = new - len(added) - (not added)
            parts.append(ChangedLines(old_start, tuple(removed), new_start, tuple(added)))
            removed.clear()
            added.clear()

    while at < len(lines):
        line = lines[at]
        sign = line[:1]
        if sign == b"\\":  # no newline at the end of the file
            side = {b"-": removed, b"+": added}.get(lines[at - 1][:1])
            if side:
                side[-1] = side[-1].removesuffix(b"\n")
        elif sign == b"-" and old_left:
            removed.append(line[1:])
            old, old_left = old + 1, old_left - 1
        elif sign == b"+" and new_left:
            added.append(line[1:])
            new, new_left = new + 1, new_left - 1
        elif sign in (b" ", b"\n", b"") and old_left and new_left:
            close()
            old, old_left, new, new_left = old + 1, old_left - 1, new + 1, new_left - 1
        else:
            break
        at += 1
    close()
    return parts, at


def diff_sections(patch: bytes) -> Iterator[tuple[ChangedLines, ...]]:
    """Yield the hunks of each file in the output of `git diff`."""
    lines = split_lines(patch)
    hunks: list[ChangedLines] | None = None
    at = 0
    while at < len(lines):
        if lines[at].startswith(b"diff --git "):
            if hunks is not None:
                yield tuple(hunks)
            hunks = []
        elif hunks is not None and lines[at].startswith(b"@@ "):
            parts, at = read_hunk(lines, at)
            hunks += parts
            continue
        at += 1
    if hunks is not None:
        yield tuple(hunks)


def apply_hunks(old: bytes, hunks: Iterable[ChangedLines]) -> bytes | None:
    """`old` with the hunks applied; None if they do not apply."""
    lines = split_lines(old)
    new: list[bytes] = []
    at = 0
    for hunk in hunks:
        start = hunk.old - 1 if hunk.removed else hunk.old
        if start < at or tuple(lines[start : start + len(hunk.removed)]) != hunk.removed:
            return None
        new += lines[at:start]
        new += hunk.added
        at = start + len(hunk.removed)
    return b"".join(new + lines[at:])
