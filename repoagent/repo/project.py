"""Carry a change of one version of a file over to another version of it: git's own three-way merge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repoagent.repo.blobs import read_blobs, store
from repoagent.repo.change import SYMLINK
from repoagent.repo.index import Entry
from repoagent.repo.run import git, git_output
from repoagent.repo.worktree import WorkTree

_CONFLICTS = range(128)  # merge-file's exit code is the number of conflicts, at most 127
_NO_TEXT = 255  # and this for binary files


@dataclass(frozen=True)
class Conflict:
    """The change can't be carried over. `lines` are ranges (first, last) of the text before the change;
    empty where it is not a matter of lines (binary, a symbolic link, a file that is not there)."""

    lines: tuple[tuple[int, int], ...] = ()


def project(
    worktree: WorkTree, version: Entry | None, before: Entry | None, after: Entry | None
) -> Entry | Conflict | None:
    """`version` with the change from `before` to `after`; None stands for no file on each side."""
    if version == before:
        return after
    if version == after:
        return version
    if version is None or before is None or after is None:
        return Conflict()
    mode = _either(version.mode, before.mode, after.mode)
    if mode is None or (SYMLINK in (version.mode, before.mode, after.mode) and version.oid != before.oid):
        return Conflict()
    oid = _either(version.oid, before.oid, after.oid)
    if oid is not None:
        return Entry(mode, oid)
    blobs = read_blobs(worktree, [version.oid, before.oid, after.oid])
    merged = merge(worktree.top, blobs[version.oid], blobs[before.oid], blobs[after.oid])
    return merged if isinstance(merged, Conflict) else Entry(mode, store(worktree, merged))


def _either(version: str, before: str, after: str) -> str | None:
    """The merge of three that can't be merged by lines; None when two sides changed it."""
    if version in (before, after):
        return after
    return version if before == after else None


def merge(top: Path, version: bytes, before: bytes, after: bytes) -> bytes | Conflict:
    """The three-way merge by lines of `version` with the change from `before` to `after`."""
    if version == before:
        return after
    if after in (before, version):
        return version
    import tempfile  # 8 ms, and most edits merge nothing

    with tempfile.TemporaryDirectory(prefix="repoagent-") as folder:
        files = [Path(folder, name) for name in ("version", "before", "after")]
        for file, data in zip(files, (version, before, after), strict=True):
            file.write_bytes(data)
        ours, base, theirs = (str(file) for file in files)
        done = git_output(top, "merge-file", "-p", ours, base, theirs, ok=[*_CONFLICTS, _NO_TEXT])
        if done.returncode == 0:
            return done.stdout
        if done.returncode == _NO_TEXT:
            return Conflict()
        return Conflict(_meeting(_hunks(top, base, theirs), _hunks(top, base, ours)))


def _hunks(top: Path, old: str, new: str) -> list[tuple[int, int]]:
    """The lines (first, one past the last) of the file `old` that `new` replaces; equal for an insertion."""
    out = git(
        top, "diff", "--no-index", "-U0", "--no-color", "--no-ext-diff", "--no-textconv",
        "--diff-algorithm=myers", "--no-indent-heuristic", "--", old, new, ok=(0, 1),
    )  # fmt: skip
    found = []
    for start, count in re.findall(rb"^@@ -(\d+)(?:,(\d+))? ", out, re.MULTILINE):
        length = int(count) if count else 1
        first = int(start) + (length == 0)
        found.append((first, first + length))
    return found


def _meeting(
    changes: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Those of `changes` that overlap or touch one of `others`, as (first, last)."""
    return tuple(
        (first, max(first, end - 1))
        for first, end in changes
        if any(first <= other_end and other_first <= end for other_first, other_end in others)
    )


def say_lines(lines: Sequence[tuple[int, int]]) -> str:
    """ "line 3 and lines 7-9", for a message."""
    said = [f"line {first}" if first == last else f"lines {first}-{last}" for first, last in lines]
    return " and ".join(said)
