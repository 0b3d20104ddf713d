"""The user's own index at the end of a transaction: as it was, and the change."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from repoagent.repo.index import Entry, copy_index, index_path, is_tree_of, put_entries, refresh
from repoagent.repo.transaction import lock
from repoagent.repo.transaction.record import Record
from repoagent.repo.worktree import WorkTree
from repoagent.store.journal import Journal

NEXT = "next"  # in the folder of the journal: the index to be
COMMITTED = "index"  # and the one that git commits


def begin_index(worktree: WorkTree, file: Path) -> None:
    """Make `file`, in a journal's folder, a copy of the index. A git that was killed while it wrote there has left
    its lock, and nobody else works there."""
    file.with_name(f"{file.name}.lock").unlink(missing_ok=True)
    copy_index(worktree, file)


def give_index(
    worktree: WorkTree,
    journal: Journal,
    record: Record,
    other: Mapping[str, Entry | None],
    leave: Collection[str] = (),
) -> None:
    """Put the change, and the `other` entries, into the user's index, and end the lock.

    Raises Busy when somebody has removed our lock and holds one now: recovery does it later.
    """
    if not lock.is_ours(worktree, journal):
        lock.take(worktree, journal)
    file = journal.path(NEXT)
    begin_index(worktree, file)
    entries = {**{planned.path: planned.stage for planned in record.planned}, **other}
    entries = {path: entry for path, entry in entries.items() if path not in leave}
    put_entries(worktree, file, entries, {p.path: p.bits for p in record.planned if p.bits})
    refresh(
        worktree, file, [path for path, entry in entries.items() if entry and (worktree.top / path).exists()]
    )
    if file.exists():
        file.replace(index_path(worktree))
    lock.release(worktree, journal)


def take_over(worktree: WorkTree, journal: Journal, commit: str) -> bool:
    """Make the index that git has committed the user's, and end the lock, where that comes to the same as
    `give_index` and is sure to: False, and nothing done, elsewhere.

    To be called where nothing was staged before, and nothing of the change but what is in the commit is to be. Then
    what is in the tree of the commit is all that is to be staged; and git has looked at every file for it.
    """
    file = journal.path(COMMITTED)
    if any(worktree.git_dir.glob("sharedindex.*")) or not lock.is_ours(worktree, journal):
        return False
    if not file.exists() or not is_tree_of(worktree, file, commit):
        return False
    file.replace(index_path(worktree))
    lock.release(worktree, journal)
    return True
