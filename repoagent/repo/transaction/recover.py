"""After a crash: complete or roll back what the journals tell of, if and only if their owners are gone."""

from __future__ import annotations

from dataclasses import replace

from repoagent.repo.commits import head_commit, read_commit
from repoagent.repo.content import look
from repoagent.repo.index import staged_entries
from repoagent.repo.run import git_output, uninterrupted
from repoagent.repo.transaction import lock
from repoagent.repo.transaction.archive import (
    archive,
    archived_before,
    edit_folder,
    kept_folder,
    shelve,
)
from repoagent.repo.transaction.find import find_made, has_moved
from repoagent.repo.transaction.journaled import load
from repoagent.repo.transaction.left_locks import remove_left_locks
from repoagent.repo.transaction.record import COMMITTING, DONE, Record
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
    kept = kept_folder(worktree, journal)
    if record is None:
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
    record, newer = _without_newer(worktree, journal, record)
    sentence = f"{what} was not finished and has been taken back"
    if made is not None:
        try:
            _complete(worktree, journal, record, made)
            stays = record.moves_to == (record.head or "")
            sentence = what + ("" if stays else f" was committed as {made[:12] or 'nothing'} and")
            sentence += " is complete now"
            kept = edit_folder(worktree, record.id)
        except Withdrawn as error:
            made, sentence = None, f"{what} has been taken back: {error}"
    if made is None:
        newer += roll_back(worktree, journal, record)
    if newer:
        sentence += f"; {', '.join(newer)} was changed since and is left as it is, {kept} has what was before"
    return sentence


def _without_newer(worktree: WorkTree, journal: Journal, record: Record) -> tuple[Record, list[str]]:
    """The record with only those of the user's other files that are to be put right, and the paths of those
    that hold something new.

    Hooks that were killed can have lost the user's work: the file then is missing or is that of HEAD.
    Anything else the user has written since, and hours may lie between.
    """
    lost, newer = [], []
    for number, saved in enumerate(record.saved):
        found = look(worktree.top, saved.path)
        if saved.content is None or found == saved.content:
            continue
        if found is None or found.data == _committed(worktree, record, saved.path):
            lost.append(saved)
        else:
            newer.append(saved.path)
            journal.keep(f"found-before-{number}", saved.content.data)
    return replace(record, saved=tuple(lost)), newer


def _committed(worktree: WorkTree, record: Record, path: str) -> bytes | None:
    """The file as a checkout of the commit that the transaction began on writes it."""
    name = f"{record.head}:{path}"
    done = git_output(worktree.top, "cat-file", "--filters", name, ok=(0, 128))
    return done.stdout if done.returncode == 0 else None


def _complete(worktree: WorkTree, journal: Journal, record: Record, commit: str) -> None:
    leave: set[str] = set()
    if not lock.is_ours(worktree, journal):
        lock.take(worktree, journal)
        leave = _changed_since(worktree, record)
    if record.moves_to is None and commit == head_commit(worktree):
        settle(worktree, journal, record, read_commit(worktree), leave=leave)
    else:
        give_index(worktree, journal, record, {}, leave)
        give_back(worktree, journal)
        archive(worktree, journal, record)


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
