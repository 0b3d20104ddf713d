"""What a run or a chat has changed and not committed, between its turns: seen, and taken back."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.edit.landing.bench import new_edit_id
from repoagent.patch.canonical import canonical_diff
from repoagent.repo import FileChange, WorkTree
from repoagent.store.locks import locked
from repoagent.work.changes import Ledger, open_ledger
from repoagent.work.changes.committing import settle_commit
from repoagent.work.changes.tools import put_back
from repoagent.work.home import Home, refuse_foreign
from repoagent.work.landing.writing import write

_WAIT = 1.0  # seconds, for a turn that another process does of the same conversation


def left(worktree: WorkTree, home: Home) -> tuple[str, ...]:
    """The paths that it has changed and not committed, in the order of first change."""
    return tuple(change.name for change in _settled(worktree, home).changes)


def _settled(worktree: WorkTree, home: Home) -> Ledger:
    """The ledger, without what was committed just before the run was ended."""
    ledger = open_ledger(worktree, home.changes)
    settle_commit(ledger)
    return ledger


def left_diff(worktree: WorkTree, home: Home) -> str:
    """The same as a unified diff, from what the files would be without it to what they are.

    Raises Refused where somebody else has changed the same lines.
    """
    changes = _settled(worktree, home).present()
    return canonical_diff(changes, hash_name=worktree.object_format)


def take_back(worktree: WorkTree, home: Home) -> tuple[str, ...]:
    """Take all of it back; what else was done to the files stays. The paths that it was.

    Raises Refused where somebody else has changed the same lines, or the run came with the repository; Busy where a
    turn of it is at work, and what writing raises; nothing is changed then.
    """
    refuse_foreign(home)
    with locked(home.lock, timeout=_WAIT, what=f"the run {home.name}"):
        ledger = _settled(worktree, home)
        paths = tuple(change.name for change in ledger.changes)

        def write_now(changes: Sequence[FileChange]) -> None:
            if changes:
                write(worktree, changes, new_edit_id())

        put_back(ledger, paths, write_now)
        return paths
