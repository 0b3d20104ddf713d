"""`git status`: which commit and branch HEAD is on, and the user's work in tracked files, and beside them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from repoagent.dataclass import dataclass
from repoagent.repo.index import Entry, entry
from repoagent.repo.run import git
from repoagent.repo.worktree import WorkTree


@dataclass(frozen=True)
class Changed:
    """A tracked path with uncommitted work: what HEAD has, what is staged (None for neither, and for an
    intent to add), and whether the file differs from what is staged."""

    head: Entry | None
    staged: Entry | None
    unstaged: bool
    intent_to_add: bool = False
    submodule: bool = False


@dataclass(frozen=True)
class Status:
    """`git status`: the commit of HEAD (None: unborn), its branch (None: detached) and the work in it."""

    head: str | None
    branch: str | None
    changed: Mapping[str, Changed]
    unmerged: tuple[str, ...]

    @property
    def has_staged(self) -> bool:
        """Whether the index has anything that HEAD has not."""
        return any(
            changed.head != changed.staged or changed.intent_to_add for changed in self.changed.values()
        )


def read_status(worktree: WorkTree) -> Status:
    """One call of git, which looks at every tracked file as `git commit` does, at no untracked one."""
    return _read(worktree, "no")[0]


def read_status_and_untracked(worktree: WorkTree) -> tuple[Status, list[str]]:
    """`read_status` and `read_untracked` by one call of git, which takes less than the two."""
    return _read(worktree, "all")


def _read(worktree: WorkTree, others: str) -> tuple[Status, list[str]]:
    out = git(
        worktree.top,
        "status",
        "--porcelain=v2",
        "-z",
        "--branch",
        f"--untracked-files={others}",
        "--no-renames",
        "--no-ahead-behind",
        "--ignore-submodules=dirty",
    )
    headers: dict[str, str] = {}
    changed: dict[str, Changed] = {}
    unmerged: list[str] = []
    untracked: list[str] = []
    for record in os.fsdecode(out).split("\0"):
        kind, _, rest = record.partition(" ")
        if kind == "#":
            key, _, value = rest.partition(" ")
            headers[key] = value
        elif kind == "1":
            path, change = _changed(rest)
            changed[path] = change
        elif kind == "u":
            unmerged.append(rest.split(" ", 9)[9])
        elif kind == "?":
            untracked.append(rest)
    head, branch = headers["branch.oid"], headers["branch.head"]
    status = Status(
        None if head == "(initial)" else head,
        None if branch == "(detached)" else branch,
        changed,
        tuple(unmerged),
    )
    return status, untracked


def read_untracked(worktree: WorkTree) -> list[str]:
    """All files that git neither knows nor ignores; another repository is its folder, with a slash at its end."""
    out = git(worktree.top, "ls-files", "-z", "--others", "--exclude-standard")
    return [path for path in os.fsdecode(out).split("\0") if path]


def _changed(rest: str) -> tuple[str, Changed]:
    letters, submodule, head_mode, staged_mode, _, head, staged, path = rest.split(" ", 7)
    old = entry(head_mode, head)
    intended = old is None and letters[0] == "."
    return path, Changed(
        old,
        None if intended else entry(staged_mode, staged),
        letters[1] != ".",
        intended,
        submodule != "N...",
    )
