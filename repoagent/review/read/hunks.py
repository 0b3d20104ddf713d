"""The hunks of a unified diff, without their context: what stood where, and what stands there now."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from repoagent.review.change import Lines

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE = b"\\"


def split_lines(data: bytes) -> list[bytes]:
    """The lines of a text, each with its `\\n`; the last may have none."""
    lines = data.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def hunk_header(line: bytes) -> tuple[int, int, int, int] | None:
    """Old begin and length, new begin and length of a hunk's first line."""
    found = _HUNK.match(line)
    if found is None:
        return None
    old, old_count, new, new_count = (1 if part is None else int(part) for part in found.groups())
    return old, old_count, new, new_count


def read_hunk(lines: Sequence[bytes], at: int) -> tuple[list[Lines], int]:
    """The parts of the hunk whose header stands at `at` that differ, and where it ends. What is cut off ends early."""
    header = hunk_header(lines[at])
    if header is None:
        return [], at + 1
    old, old_left, new, new_left = header
    # for no lines, git gives the number of the line before
    old, new = old + (old_left == 0), new + (new_left == 0)
    found: list[Lines] = []
    removed: list[bytes] = []
    added: list[bytes] = []
    at += 1

    def close() -> None:
        if removed or added:
            old_at = old - len(removed) - (not removed)
            new_at = new - len(added) - (not added)
            found.append(Lines(old_at, tuple(removed), new_at, tuple(added)))
            removed.clear()
            added.clear()

    while at < len(lines):
        line = lines[at]
        kind = line[:1]
        if kind == _NO_NEWLINE:
            _cut_newline(lines[at - 1][:1], removed, added)
        elif kind == b"-" and old_left:
            removed.append(line[1:])
            old, old_left = old + 1, old_left - 1
        elif kind == b"+" and new_left:
            added.append(line[1:])
            new, new_left = new + 1, new_left - 1
        elif kind in (b" ", b"\n", b"") and old_left and new_left:
            close()
            old, old_left, new, new_left = old + 1, old_left - 1, new + 1, new_left - 1
        else:
            break
        at += 1
    close()
    return found, at


def _cut_newline(kind: bytes, removed: list[bytes], added: list[bytes]) -> None:
    side = {b"-": removed, b"+": added}.get(kind)
    if side:
        side[-1] = side[-1].removesuffix(b"\n")


def sections(patch: bytes) -> Iterator[tuple[bytes, tuple[Lines, ...]]]:
    """What `git diff` printed for each file, in its order: its first line (`diff --git …`) and its hunks."""
    lines = split_lines(patch)
    head: bytes | None = None
    found: list[Lines] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith(b"diff --git "):
            if head is not None:
                yield head, tuple(found)
            head, found = lines[at], []
        elif head is not None and lines[at].startswith(b"@@ "):
            hunk, at = read_hunk(lines, at)
            found += hunk
            continue
        at += 1
    if head is not None:
        yield head, tuple(found)


def spliced(old: bytes, hunks: Iterable[Lines]) -> bytes | None:
    """The text after the change; None where the hunks do not fit it."""
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
