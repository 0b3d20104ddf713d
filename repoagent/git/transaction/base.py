"""The common part of `Transaction` and `MoveTransaction`: lock, plan, write the files, complete or roll back."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from repoagent.errors import Busy, Refused, RepoagentError
from repoagent.git.file_writer import (
    Moved,
    new_folders,
    refuse_moved,
    steps_in_place,
    steps_of,
    with_permissions,
    write_step,
)
from repoagent.git.files import FileChange
from repoagent.git.index import Status, index_path, read_status
from repoagent.git.objects import Commit
from repoagent.git.process import uninterrupted
from repoagent.git.transaction import locks
from repoagent.git.transaction.finish import archive, edit_folder, end_if_archived, folder_after, roll_back
from repoagent.git.transaction.journal import LOCKED, WRITING, Record, keep_steps, save, to_dict
from repoagent.git.transaction.plan import Plan, refuse_operation, refuse_unmerged
from repoagent.git.transaction.results import InPlace, OtherChanges, UnfinishedTransaction
from repoagent.git.worktree import WorkTree, layout
from repoagent.storage.journal import Journal, create_journal
from repoagent.storage.layout import to_stderr

_Self = TypeVar("_Self", bound="BaseTransaction")


def new_edit_id() -> str:
    """A name for an edit: it stands in the commit as `Repoagent-Edit`."""
    return secrets.token_hex(6)


class BaseTransaction(ABC):
    """A change of files, from the lock to its end. A context manager: leaving it before its end puts everything
    back. Where others have worked on files `meanwhile`, that stays, and is said. `plan` says what is to be committed.

    Its two kinds say how it ends: `Transaction` makes a commit, `Move` goes to one that is there. `commits` is
    False where only the files are written, and no lock is taken; `in_place` where they are written already.
    """

    _is_for_head = (
        True  # what a merge or a rebase in progress would be confused by; the index alone may change in one
    )

    def __init__(
        self,
        worktree: WorkTree,
        changes: Sequence[FileChange],
        event: str,
        edit_id: str,
        *,
        commits: bool,
        in_place: InPlace | None = None,
    ) -> None:
        self.id = edit_id
        self.plan = Plan(None, None)
        self.other_changes = OtherChanges()
        self._home = Path()  # where bytes are that `meanwhile` says are kept
        self._worktree = worktree
        self._changes = tuple(changes)
        self._journal: Journal | None = None
        self._status: Status | None = None  # the last look at the user's other work
        if in_place is None:
            steps = steps_of(changes, edit_id)
        else:
            steps = steps_in_place(changes, in_place.found, edit_id)
        self._in_place = in_place
        self._record = Record(edit_id, event, LOCKED, commits, steps=steps, in_place=in_place is not None)

    def __enter__(self: _Self) -> _Self:
        """Raises Refused or Busy, nothing touched, when the commit can't be planned."""
        record = replace(self._record, steps=())
        if record.commits:
            if self._is_for_head:
                refuse_operation(self._worktree, offer=self._is_edit)
            index_path(self._worktree)
        if self._is_edit and edit_folder(self._worktree, self.id).exists():
            raise Refused(f"the edit {self.id} already exists: use another name")
        files = {locks.LOCK_FILE: locks.lock_text(self.id)}
        name = f"{self.id}-{record.event}"
        self._journal = create_journal(layout(self._worktree).journal, name, to_dict(record), files)
        try:
            if record.commits:
                self._lock_and_plan(self._journal)
        except BaseException:
            with uninterrupted():
                self._record = record
                self._end()
            raise
        return self

    def write(self) -> None:
        """Write the files.

        Raises Moved, nothing written, when one of them is not what the change was made for.
        """
        journal, top = self._open(), self._worktree.top
        refuse_moved(top, self._record.steps)
        steps = self._record.steps
        if not self._record.in_place:
            steps = with_permissions(top, steps, self._changes)
        self._record = replace(self._record, state=WRITING, steps=steps, folders=new_folders(top, steps))
        keep_steps(journal, self._record)
        save(journal, self._record)
        for number, step in enumerate(steps if not self._record.in_place else ()):
            try:
                write_step(top, step)
            except Moved:
                self._record = replace(self._record, steps=steps[:number])  # the rest is not ours
                raise

    def keep(self) -> None:
        """Leave the files as they were written, without a commit."""
        journal = self._open()
        with uninterrupted():
            if self._record.commits:
                locks.release(self._worktree, journal)
            archive(self._worktree, journal, replace(self._record, commits=False))
            self._close(journal)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._journal is not None:
            with uninterrupted():
                self._end(self._find_commit())
            for sentence in self.other_changes.remarks(self._home):
                to_stderr(sentence)

    @property
    def left(self) -> tuple[str, ...]:
        """The files that the edit is still in, for somebody has changed its lines meanwhile."""
        return self.other_changes.conflicts

    @property
    def _is_edit(self) -> bool:
        """And not an undo or redo, which has no --no-commit to offer."""
        return self._record.event == "edit"

    def _open(self) -> Journal:
        if self._journal is None:
            raise RuntimeError("the transaction has ended")
        return self._journal

    def _lock_and_plan(self, journal: Journal) -> None:
        locks.acquire(self._worktree, journal)
        self._status = status = read_status(self._worktree)
        if self._is_for_head:
            refuse_unmerged(status, offer=self._is_edit)
        self.plan = self._make_plan(status)
        self._record = replace(self._record, head=status.head, branch=status.branch, planned=self.plan.paths)

    @abstractmethod
    def _make_plan(self, status: Status) -> Plan:
        """What the work tree, the index and the commit shall hold."""

    @abstractmethod
    def _find_commit(self) -> Commit | None:
        """The commit that was made, if one was."""

    def _look_again(self) -> Status:
        """Raises Busy when HEAD is not where the transaction began."""
        status = read_status(self._worktree)
        self._refuse_moved(status.head, status.branch)
        return status

    def _refuse_moved(self, head: str | None, branch: str | None) -> None:
        if (head, branch) != (self._record.head, self._record.new_branch or self._record.branch):
            raise Busy("another program moved HEAD during the edit: run the edit again")

    def _end(self, made: Commit | None = None) -> None:
        """Complete it with the commit, or take it back. Raises Unsettled where that can't be done now."""
        journal = self._open()
        try:
            self._finish(journal, made)
        except (RepoagentError, OSError):
            try:  # once more: what failed may have been a git that was killed
                self._finish(journal, self._find_commit())
            except (RepoagentError, OSError) as error:
                self._close(journal)
                raise UnfinishedTransaction(self._record.event, self.id, error) from error
        self._close(journal)

    def _finish(self, journal: Journal, made: Commit | None) -> None:
        """Take it back; a kind that ends in a commit completes it where that is `made`."""
        if self._record.state == LOCKED:
            self._record = replace(self._record, steps=())
        if not end_if_archived(self._worktree, journal, self._record):
            self._home = folder_after(self._worktree, journal, self._record, done=False)
            self.other_changes += roll_back(self._worktree, journal, self._record)

    def _close(self, journal: Journal) -> None:
        journal.close()
        self._journal = None
