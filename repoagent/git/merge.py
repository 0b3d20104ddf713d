"""Three-way merges of bytes, and of tree or index entries, with `git merge-file`; and their conflicts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.git.files import SYMLINK, Content, same_content
from repoagent.git.index import Entry
from repoagent.git.objects import read_blobs, store_blob
from repoagent.git.process import git, git_output
from repoagent.git.worktree import WorkTree, layout_of
from repoagent.storage.journal import scratch_folder

_CONFLICTS = range(128)  # merge-file's exit code is the number of conflicts, at most 127
_NO_TEXT = 255  # and this for binary files
_Lines = tuple[int, int]
_Hunk = tuple[_Lines, _Lines]


@dataclass(frozen=True)
class Conflict:
    """A change that cannot be merged.

    `lines` are the conflicting ranges (first, last) of the text before the change; empty for binary files, links and
    missing files.
    """

    lines: tuple[tuple[int, int], ...] = ()


def merge(
    worktree: WorkTree,
    version: bytes,
    before: bytes,
    after: bytes,
    *,
    after_wins: bool = False,
    exact: bool = False,
) -> bytes | Conflict:
    """Merge the change from `before` to `after` into `version`; with `after_wins`, the change wins conflicts.

    Changes to adjacent lines conflict, as in git. With `exact`, which is for removing a change from other work, only
    changes that cannot be separated conflict.
    """
    if version == before:
        return after
    if after in (before, version):
        return version
    with scratch_folder(layout_of(worktree).journal, "merge") as folder:
        version_file, before_file, after_file = (folder / name for name in ("version", "before", "after"))
        version_file.write_bytes(version)
        before_file.write_bytes(before)
        after_file.write_bytes(after)
        files = (str(version_file), str(before_file), str(after_file))
        flags = ["--theirs"] if after_wins else []
        merged = git_output(worktree.top, "merge-file", "-p", *flags, *files, ok=[*_CONFLICTS, _NO_TEXT])
        if merged.returncode == 0:
            return merged.stdout
        if merged.returncode == _NO_TEXT:
            return Conflict()
        ours, theirs = (_hunks(worktree, before_file, other) for other in (after_file, version_file))
        text = _merge_exactly(ours, theirs, before, after, version) if exact else None
    if text is not None:
        return text
    touching = [
        (change, other)
        for change in ours
        for other in theirs
        if change[0][0] <= other[0][1] and other[0][0] <= change[0][1]
    ]
    ranges = [change[0] for change, other in touching if _meet(change, other)]
    ranges = ranges or [change[0] for change, _ in touching]
    return Conflict(tuple(dict.fromkeys((first, max(first, end - 1)) for first, end in ranges)))


def merge_content(
    worktree: WorkTree, current: Content | None, before: Content | None, after: Content | None
) -> Content | Conflict | None:
    """Apply the change from `before` to `after` to the file content `current`, and return the result.

    All other changes are kept. None means no file. The mode changes only if the change includes it.
    """
    if same_content(current, before) or same_content(current, after):
        target = after
    elif (
        current is None
        or before is None
        or after is None
        or current.is_link
        or before.is_link
        or after.is_link
    ):
        return Conflict()
    else:
        merged = merge(worktree, current.data, before.data, after.data, exact=True)
        if isinstance(merged, Conflict):
            return merged
        target = Content(merged, after.mode)
    if target is None or current is None or before is None:
        return target
    return Content(target.data, target.mode if target.mode != before.mode else current.mode)


def _hunks(worktree: WorkTree, old: Path, new: Path) -> list[_Hunk]:
    """For each hunk, its lines of `old` and of `new`: first, one past the last; equal for none."""
    out = git(
        worktree.top, "diff", "--no-index", "--text", "-U0", "--inter-hunk-context=0", "--no-color", "--no-ext-diff",
        "--no-textconv", "--diff-algorithm=myers", "--no-indent-heuristic", "--", str(old), str(new), ok=(0, 1),
    )  # fmt: skip

    def lines(start: bytes, count: bytes) -> _Lines:
        length = int(count or 1)
        first = int(start) + (length == 0)
        return first, first + length

    headers = re.findall(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", out, re.MULTILINE)
    return [(lines(*header[:2]), lines(*header[2:])) for header in headers]


def _meet(ours: _Hunk, theirs: _Hunk) -> bool:
    """Whether two changes of one text cannot be separated: they share a line, or touch and neither replaces lines by
    lines. Two insertions at one point have no order; nor have two deletions when undone."""
    (first, end), (other_first, other_end) = ours[0], theirs[0]
    if first > other_end or other_first > end:
        return False
    if max(first, other_first) < min(end, other_end) or first < other_first == other_end < end:
        return True
    if other_first < first == end < other_end:
        return True
    return all(any(start == stop for start, stop in hunk) for hunk in (ours, theirs))


def _merge_exactly(
    ours: Sequence[_Hunk], theirs: Sequence[_Hunk], before: bytes, after: bytes, version: bytes
) -> bytes | None:
    """`before` with the changes of both sides; None if two conflict."""
    # only a newline ends a line, as in git
    base, our_lines, their_lines = (
        re.findall(rb"[^\n]*\n|[^\n]+", text) for text in (before, after, version)
    )
    changes = [(old, our_lines[new[0] - 1 : new[1] - 1]) for old, new in ours]
    ours_only = list(changes)
    for old, new in theirs:
        change = (old, their_lines[new[0] - 1 : new[1] - 1])
        if change in ours_only:
            continue
        if any(_meet(hunk, (old, new)) for hunk in ours):
            return None
        changes.append(change)
    merged: list[bytes] = []
    line = 1
    for (first, end), lines in sorted(changes):
        merged += [*base[line - 1 : first - 1], *lines]
        line = end
    merged += base[line - 1 :]
    return b"".join(merged) if all(text.endswith(b"\n") for text in merged[:-1]) else None


def lines_text(lines: Sequence[tuple[int, int]]) -> str:
    """Format line ranges in words: "line 3 and lines 7-9"."""
    return " and ".join(
        f"line {first}" if first == last else f"lines {first}-{last}" for first, last in lines
    )


def merge_entry(
    worktree: WorkTree, version: Entry | None, before: Entry | None, after: Entry | None
) -> Entry | Conflict | None:
    """Merge the change from `before` to `after` into the entry `version`; None means no file."""
    if version == before:
        return after
    if version == after:
        return version
    if version is None or before is None or after is None:
        return Conflict()
    mode = _pick(version.mode, before.mode, after.mode)
    if mode is None or (SYMLINK in (version.mode, before.mode, after.mode) and version.oid != before.oid):
        return Conflict()
    oid = _pick(version.oid, before.oid, after.oid)
    if oid is not None:
        return Entry(mode, oid)
    blobs = read_blobs(worktree, [version.oid, before.oid, after.oid])
    merged = merge(worktree, blobs[version.oid], blobs[before.oid], blobs[after.oid], exact=True)
    return merged if isinstance(merged, Conflict) else Entry(mode, store_blob(worktree, merged))


def _pick(version: str, before: str, after: str) -> str | None:
    """The merge of three values; None if both sides changed it."""
    if version in (before, after):
        return after
    return version if before == after else None
