"""Commits that are there: which one HEAD is on, and what a commit changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from repoagent.dataclass import dataclass
from repoagent.repo.index import Entry, entry
from repoagent.repo.run import git, git_output
from repoagent.repo.worktree import WorkTree

_RAW = ("-r", "-z", "--raw", "--no-abbrev", "--no-renames")


@dataclass(frozen=True)
class Commit:
    """A commit as git shows it: `changed` is what it has other than its first parent (None: removed), `was`
    what that one has there."""

    oid: str
    parents: tuple[str, ...]
    changed: Mapping[str, Entry | None]
    was: Mapping[str, Entry | None]

    @property
    def parent(self) -> str | None:
        return self.parents[0] if self.parents else None


def head_commit(worktree: WorkTree) -> str | None:
    """The commit of HEAD; None when unborn."""
    out = git(worktree.top, "rev-parse", "--quiet", "--verify", "HEAD^{commit}", ok=(0, 1))
    return out.decode().strip() or None


def read_commit(worktree: WorkTree, commit: str = "HEAD") -> Commit:
    """The commit (one call of git). Raises GitError when there is none."""
    out = git(
        worktree.top, "diff-tree", "--root", "--always", *_RAW,
        "--format=%H %P", "--end-of-options", commit, "--",
    )  # fmt: skip
    header, _, raw = os.fsdecode(out).partition("\0")
    oid, *parents = header.split()
    found = list(_differences(raw.lstrip("\n")))
    was, changed = {path: old for path, old, _ in found}, {path: new for path, _, new in found}
    return Commit(oid, tuple(parents), changed, was)


def changes_between(worktree: WorkTree, one: str, other: str) -> dict[str, tuple[Entry | None, Entry | None]]:
    """The paths in which two commits differ, with what each of them has."""
    out = git(worktree.top, "diff-tree", *_RAW, one, other)
    return {path: (old, new) for path, old, new in _differences(os.fsdecode(out))}


def _differences(raw: str) -> Iterator[tuple[str, Entry | None, Entry | None]]:
    """Path, old and new entry of each line of git's raw format."""
    fields = raw.split("\0")
    for description, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, mode, old, new, _ = description.removeprefix(":").split(" ")
        yield path, entry(old_mode, old), entry(mode, new)


def first_parents(worktree: WorkTree, count: int) -> list[tuple[str, str | None]]:
    """The last `count` commits of HEAD along first parents, newest first, each with its parent (None: a root)."""
    out = git(worktree.top, "rev-list", "--first-parent", "--parents", f"-n{count}", "HEAD", "--")
    lines = (line.split() for line in out.decode().splitlines())
    return [(commit, parents[0] if parents else None) for commit, *parents in lines]


def has_object(worktree: WorkTree, oid: str) -> bool:
    """Whether git still keeps the object."""
    return git_output(worktree.top, "cat-file", "-e", oid, ok=(0, 1, 128)).returncode == 0


def contains(worktree: WorkTree, tip: str, commit: str) -> bool:
    """Whether `commit` is `tip` or in its history; False also where git has not one of them."""
    found = git_output(worktree.top, "merge-base", "--is-ancestor", commit, tip, ok=(0, 1, 128))
    return found.returncode == 0
