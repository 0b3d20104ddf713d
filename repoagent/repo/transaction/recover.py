"""After a crash: complete or roll back what the journals tell of, if and only if their owners are gone."""

from __future__ import annotations

from repoagent.repo.commits import head_commit, read_commit
from repoagent.repo.index import staged_entries
from repoagent.repo.run import uninterrupted
from repoagent.repo.transaction import lock
from repoagent.repo.transaction.archive import (
    archive,
    archived_before,
    kept_after,
    kept_folder,
    shelve,
)
from repoagent.repo.transaction.find import find_made, has_moved
from repoagent.repo.transaction.journaled import load
from repoagent.repo.transaction.left_locks import remove_left_locks
from repoagent.repo.transaction.other_files import put_right
from repoagent.repo.transaction.record import COMMITTING, DONE, Record
from repoagent.repo.transaction.results import said_of_restored
from repoagent.repo.transaction.roll_back import roll_back
from repoagent.repo.transaction.settle import settle
from repoagent.repo.transaction.swept_in import Withdrawn
from repoagent.repo.transaction.user_index import give_index
from repoagent.repo.transaction.waiting import give_back
from repoagent.repo.worktree import WorkTree, layout
from repoagent.store.journal import Journal, abandoned


def recover(worktree: WorkTree) -> list[str]:
    """Run at the start of every command: what was done, in sentences for the user; mostly nothing.

    Without a crash it costs one look at a folder. A journal whose owner lives, as that of a commit whose hook
    this is, is left alone. Raises Busy when another git command holds the index lock that is needed, Refused
    for a journal of a newer version.
    """
    root = layout(worktree).journal
    if not root.is_dir():
        return []
    said = []
    for journal in abandoned(root):
        try:
            with uninterrupted():
                said.append(_recover(worktree, journal))
        finally:
            journal.close()
    return said


def _recover(worktree: WorkTree, journal: Journal) -> str:
    record = load(journal.folder)
    if record is None:
        kept = kept_folder(worktree, journal)
        lock.release(worktree, journal)
        journal.retire(kept)
        return (
            f"an unfinished edit has no readable journal; what is left of it is kept in {kept}: compare with it what "
            "`git status` and `git diff` show before you commit"
        )
    what = f"the {record.event} {record.id}"
    if record.state == DONE:
        shelve(worktree, journal, record)
        return f"{what} is complete"
    made = None
    if record.state == COMMITTING:
        remove_left_locks(worktree, record)
        made = _commit_of(worktree, record)
    if made is None and archived_before(worktree, journal, record):
        return f"{what} is complete"
    others: tuple[str, ...] = ()
    sentence = f"{what} was not finished and has been taken back"
    if made is not None:
        try:
            others = _complete(worktree, journal, record, made)
            stays = record.moves_to == (record.head or "")
            sentence = what + ("" if stays else f" was committed as {made[:12] or 'nothing'} and")
            sentence += " is complete now"
        except Withdrawn as error:
            made, sentence = None, f"{what} has been taken back: {error}"
    if made is None:
        home = kept_after(worktree, journal, record, done=False)
        others = roll_back(worktree, journal, record).remarks(home)
    return "; ".join((sentence, *others))


def _complete(worktree: WorkTree, journal: Journal, record: Record, commit: str) -> tuple[str, ...]:
    """What is said of the user's other files."""
    leave: set[str] = set()
    if not lock.is_ours(worktree, journal):
        lock.take(worktree, journal)
        leave = _changed_since(worktree, record)
    if record.moves_to is None and commit == head_commit(worktree):
        done = settle(worktree, journal, record, read_commit(worktree), leave=leave)
        return (*done.notes, *said_of_restored(done.restored))
    others = put_right(worktree, journal, record)
    home = kept_after(worktree, journal, record, done=True)
    give_index(worktree, journal, record, {}, leave)
    give_back(worktree, journal)
    archive(worktree, journal, record)
    return others.remarks(home)


def _changed_since(worktree: WorkTree, record: Record) -> set[str]:
    """Paths that somebody has staged anew after the crash, which a removed lock makes possible."""
    now = staged_entries(worktree, [planned.path for planned in record.planned])
    return {one.path for one in record.planned if now.get(one.path) not in (one.staged_here, one.stage)}


def _commit_of(worktree: WorkTree, record: Record) -> str | None:
    """The commit of the transaction if it came about: HEAD, or below what was committed since."""
    if record.moves_to is not None:
        return record.moves_to if has_moved(worktree, record) else None
    made = find_made(worktree, record)
    return None if made is None else made.oid
