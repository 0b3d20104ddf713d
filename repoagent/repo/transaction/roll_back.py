"""Take back what a transaction has done: the other one of its two ends."""

from __future__ import annotations

from contextlib import suppress

from repoagent.repo.branches import switch_back
from repoagent.repo.transaction import lock
from repoagent.repo.transaction.archive import kept_folder, retire_to
from repoagent.repo.transaction.other_files import put_right
from repoagent.repo.transaction.other_lines import taken_for_ours
from repoagent.repo.transaction.record import Record
from repoagent.repo.transaction.waiting import give_back
from repoagent.repo.worktree import WorkTree
from repoagent.repo.write.steps import take_back
from repoagent.store.journal import Journal


def roll_back(worktree: WorkTree, journal: Journal, record: Record) -> list[str]:
    """Make everything what it was before; the journal ends.

    A file that holds anything but what we wrote is left as it is and returned; the journal's folder, with the
    bytes before and after, then is kept under `kept`.
    """
    steps = taken_for_ours(worktree, record).steps
    left = [step.path for step in reversed(steps) if not take_back(worktree.top, step)]
    for folder in record.folders:
        with suppress(OSError):  # not empty: something else is in it by now
            (worktree.top / folder).rmdir()
    put_right(worktree.top, journal, record.saved)
    give_back(worktree, journal)
    if record.new_branch is not None:
        switch_back(worktree, record.new_branch, record.head, record.branch, record.id)
    if record.commits:
        lock.release(worktree, journal)
    if left or any(journal.folder.glob("found-*")):
        retire_to(journal, kept_folder(worktree, journal))
    else:
        journal.retire()
    return left
