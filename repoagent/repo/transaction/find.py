"""Find the commit of a transaction: HEAD, or below what others, a hook too, have committed on it since."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from repoagent.errors import Busy
from repoagent.repo.commits import Commit, changes_between, first_parents, head_commit, read_commit
from repoagent.repo.index import Entry, staged_entries
from repoagent.repo.run import git
from repoagent.repo.transaction.recommit import withdraw
from repoagent.repo.transaction.record import Record
from repoagent.repo.worktree import WorkTree

_FAR = 30  # commits that somebody may have made on top before the next repoagent command


def just_made(worktree: WorkTree, record: Record) -> Commit | None:
    """The commit, when git says that it has made one; None when a hook has taken the change out of it again, and
    it is withdrawn.

    Raises Busy when HEAD was moved meanwhile; a commit of ours on another commit than planned is withdrawn.
    """
    tip = read_commit(worktree)
    made = tip if tip.parent == record.head else find_made(worktree, record)
    if made is None:
        if is_ours(worktree, record, tip):
            withdraw(worktree, tip)
        raise Busy("HEAD was moved by another program while the edit was committed: run the edit again")
    if made is tip and not any(planned.path in made.changed for planned in record.planned):
        withdraw(worktree, made)
        return None
    return made


def find_made(worktree: WorkTree, record: Record) -> Commit | None:
    """The commit on top of that on which the transaction began; None where there is none, or it is not ours."""
    now = head_commit(worktree)
    if now is None or now == record.head:
        return None
    for oid, parent in first_parents(worktree, _FAR):
        if parent == record.head:
            made = read_commit(worktree, oid)
            return made if is_ours(worktree, record, made) else None
    return None


def is_ours(worktree: WorkTree, record: Record, made: Commit) -> bool:
    """Whether the commit has what was planned, or says that it is this edit."""
    if any(made.changed.get(p.path, p.in_head) == p.commit != p.in_head for p in record.planned):
        return True
    return record.id.encode() in git(worktree.top, "cat-file", "commit", made.oid)


def has_moved(worktree: WorkTree, record: Record) -> bool:
    """Whether HEAD was set to `moves_to`: it is on it, or on what was committed on top since."""
    now = head_commit(worktree)
    if now is None or now in (record.moves_to, record.head):
        return (now or "") == record.moves_to
    line = [*(oid for oid, _ in first_parents(worktree, _FAR)), ""]  # "" is what comes before a first commit
    if record.moves_to not in line:
        return False
    return record.head not in line or line.index(record.moves_to) < line.index(record.head)


def committed_since(
    worktree: WorkTree, index: Path, made: Commit, stage: Mapping[str, Entry | None]
) -> dict[str, Entry | None]:
    """What the user's index is to have for the commits that stand on `made`.

    A hook that commits stages in `index`, the one that git gave it, and the user's is to follow as it would
    have; unless something else is staged there. `stage` is what it is to have besides.
    """
    tip = head_commit(worktree)
    if tip in (made.oid, None) or not index.exists():
        return {}
    since = changes_between(worktree, made.oid, "HEAD")
    theirs, mine = staged_entries(worktree, since, index), staged_entries(worktree, since)
    return {
        path: new
        for path, (old, new) in since.items()
        if theirs.get(path) == new and (stage[path] if path in stage else mine.get(path)) == old
    }
