"""git's three-way merge of texts, and where it fails."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repoagent.repo.run import git, git_output
from repoagent.repo.worktree import WorkTree, layout
from repoagent.store.journal import scratch

_CONFLICTS = range(128)  # merge-file's exit code is the number of conflicts, at most 127
_NO_TEXT = 255  # and this for binary files


@dataclass(frozen=True)
class Conflict:
    """The change can't be carried over. `lines` are ranges (first, last) of the text before the change;
    empty where it is not a matter of lines (binary, a symbolic link, a file that is not there)."""

    lines: tuple[tuple[int, int], ...] = ()


def merge(
    worktree: WorkTree, version: bytes, before: bytes, after: bytes, *, after_wins: bool = False
) -> bytes | Conflict:
    """The three-way merge by lines of `version` with the change from `before` to `after`, which has the last word
    where `after_wins`."""
    if version == before:
        return after
    if after in (before, version):
        return version
    with scratch(layout(worktree).journal, "merge") as folder:
        version_file, before_file, after_file = (folder / name for name in ("version", "before", "after"))
        version_file.write_bytes(version)
        before_file.write_bytes(before)
        after_file.write_bytes(after)
        files = (str(version_file), str(before_file), str(after_file))
        flags = ["--theirs"] if after_wins else []
        done = git_output(worktree.top, "merge-file", "-p", *flags, *files, ok=[*_CONFLICTS, _NO_TEXT])
        if done.returncode == 0:
            return done.stdout
        if done.returncode == _NO_TEXT:
            return Conflict()
        change = _hunks(worktree, before_file, after_file)
        return Conflict(_meeting(change, _hunks(worktree, before_file, version_file)))


def _hunks(worktree: WorkTree, old: Path, new: Path) -> list[tuple[int, int]]:
    """The lines (first, one past the last) of the file `old` that `new` replaces; equal for an insertion."""
    out = git(
        worktree.top, "diff", "--no-index", "--text", "-U0", "--inter-hunk-context=0", "--no-color", "--no-ext-diff",
        "--no-textconv", "--diff-algorithm=myers", "--no-indent-heuristic", "--", str(old), str(new), ok=(0, 1),
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
