"""git's three-way merge of texts, and where it fails."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from repoagent.repo.content import Content, same
from repoagent.repo.run import git, git_output
from repoagent.repo.worktree import WorkTree, layout
from repoagent.store.journal import scratch

_CONFLICTS = range(128)  # merge-file's exit code is the number of conflicts, at most 127
_NO_TEXT = 255  # and this for binary files
_Lines = tuple[int, int]


@dataclass(frozen=True)
class Conflict:
    """The change can't be carried over. `lines` are ranges (first, last) of the text before the change;
    empty where it is not a matter of lines (binary, a symbolic link, a file that is not there). `version` are those
    of the version that they meet."""

    lines: tuple[tuple[int, int], ...] = ()
    version: tuple[tuple[int, int], ...] = field(default=(), compare=False)


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
        return _meeting(
            _hunks(worktree, before_file, after_file), _hunks(worktree, before_file, version_file)
        )


def carry(
    worktree: WorkTree, now: Content | None, was: Content | None, becomes: Content | None
) -> Content | Conflict | None:
    """What a file that holds `now` is to be after the change from `was` to `becomes`, with all else that was done to
    it; None is no file. Its mode is changed only where the change does so."""
    if same(now, was) or same(now, becomes):
        target = becomes
    elif now is None or was is None or becomes is None or now.is_link or was.is_link or becomes.is_link:
        return Conflict()
    else:
        merged = merge(worktree, now.data, was.data, becomes.data)
        if isinstance(merged, Conflict):
            return merged
        target = Content(merged, becomes.mode)
    if target is None or now is None or was is None:
        return target
    return Content(target.data, target.mode if target.mode != was.mode else now.mode)


def lines_between(worktree: WorkTree, old: bytes, new: bytes) -> tuple[tuple[int, int], ...]:
    """The lines (first, last) of `new` that are not those of `old`; where some are only missing, the one after."""
    with scratch(layout(worktree).journal, "lines") as folder:
        old_file, new_file = folder / "old", folder / "new"
        old_file.write_bytes(old)
        new_file.write_bytes(new)
        return tuple(_inclusive(here) for _, here in _hunks(worktree, old_file, new_file))


def _hunks(worktree: WorkTree, old: Path, new: Path) -> list[tuple[_Lines, _Lines]]:
    """The lines (first, one past the last) of the file `old` that `new` replaces, and those in their place; equal
    numbers for none."""
    out = git(
        worktree.top, "diff", "--no-index", "--text", "-U0", "--inter-hunk-context=0", "--no-color", "--no-ext-diff",
        "--no-textconv", "--diff-algorithm=myers", "--no-indent-heuristic", "--", str(old), str(new), ok=(0, 1),
    )  # fmt: skip
    found = re.findall(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", out, re.MULTILINE)
    return [(_range(*sides[:2]), _range(*sides[2:])) for sides in found]


def _range(start: bytes, count: bytes) -> _Lines:
    length = int(count) if count else 1
    first = int(start) + (length == 0)
    return first, first + length


def _meeting(changes: Sequence[tuple[_Lines, _Lines]], others: Sequence[tuple[_Lines, _Lines]]) -> Conflict:
    """Where `changes` overlap or touch `others`, which begin at the same text."""
    pairs = [
        ((first, end), there)
        for (first, end), _ in changes
        for (other_first, other_end), there in others
        if first <= other_end and other_first <= end
    ]
    ours, theirs = (
        (dict.fromkeys(map(_inclusive, side)) for side in zip(*pairs, strict=True)) if pairs else ({}, {})
    )
    return Conflict(tuple(ours), tuple(theirs))


def _inclusive(lines: _Lines) -> _Lines:
    first, end = lines
    return first, max(first, end - 1)


def say_lines(lines: Sequence[tuple[int, int]]) -> str:
    """ "line 3 and lines 7-9", for a message."""
    said = [f"line {first}" if first == last else f"lines {first}-{last}" for first, last in lines]
    return " and ".join(said)
