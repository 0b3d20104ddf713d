"""Find the commit of a transaction: HEAD, or below what others, a hook too, have committed on it since."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from repoagent.repo.commit import Made, head, read_commit
from repoagent.repo.index import Entry, entry, read_entries
from repoagent.repo.record import Record
from repoagent.repo.run import git
from repoagent.repo.worktree import WorkTree

_FAR = 30  # commits that somebody may have made on top before the next repoagent command


def find_made(worktree: WorkTree, record: Record, *, surely: bool = False) -> Made | None:
    """The commit on top of that on which the transaction began; None where there is none, or it is not ours.

    `surely` says that git has made one: then the one that HEAD is on needs no other proof.
    """
    now = head(worktree)
    if now is None or now == record.head:
        return None
    out = git(worktree.top, "rev-list", "--first-parent", "--parents", f"-n{_FAR}", "HEAD", "--")
    for line in out.decode().splitlines():
        commit, *parents = line.split()
        if (parents[0] if parents else None) == record.head:
            made = read_commit(worktree, commit)
            return made if (surely and commit == now) or is_ours(worktree, record, made) else None
    return None


def is_ours(worktree: WorkTree, record: Record, made: Made) -> bool:
    """Whether the commit has what was planned, or says that it is this edit."""
    if any(made.changed.get(p.path, p.in_head) == p.commit != p.in_head for p in record.planned):
        return True
    return record.id.encode() in git(worktree.top, "cat-file", "commit", made.commit)


def committed_since(
    worktree: WorkTree, index: Path, made: Made, stage: Mapping[str, Entry | None]
) -> dict[str, Entry | None]:
    """What the user's index is to have for the commits that stand on `made`.

    A hook that commits stages in `index`, the one that git gave it, and the user's is to follow as it would
    have; unless something else is staged there. `stage` is what it is to have besides.
    """
    if head(worktree) == made.commit or not index.exists():
        return {}
    since = _changes(worktree, made.commit)
    theirs = {path: one.entry for path, one in read_entries(worktree, list(since), index).items()}
    mine = {path: one.entry for path, one in read_entries(worktree, list(since)).items()}
    return {
        path: new
        for path, (old, new) in since.items()
        if theirs.get(path) == new and (stage[path] if path in stage else mine.get(path)) == old
    }


def _changes(worktree: WorkTree, commit: str) -> dict[str, tuple[Entry | None, Entry | None]]:
    """Paths in which HEAD is other than `commit`: what that one has, and HEAD."""
    out = git(worktree.top, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", commit, "HEAD")
    fields = os.fsdecode(out).split("\0")
    found = {}
    for description, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, mode, old, new, _ = description.removeprefix(":").split(" ")
        found[path] = (entry(old_mode, old), entry(mode, new))
    return found
