"""A transaction that ends with HEAD on a commit that is there already, instead of making one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from repoagent.repo.change import FileChange
from repoagent.repo.commit import Made, head
from repoagent.repo.index import Entry, Status
from repoagent.repo.plan import Plan, plan_move
from repoagent.repo.record import COMMITTING
from repoagent.repo.run import git, uninterrupted
from repoagent.repo.settle import archive, give_index
from repoagent.repo.transaction import Transaction
from repoagent.repo.worktree import WorkTree


@dataclass(frozen=True)
class Way:
    """From HEAD to the commit `to` ("": to none, the branch is unborn), which has `becomes` where HEAD has
    `was`. `event` and `edit_id` say for what."""

    to: str
    was: Mapping[str, Entry | None]
    becomes: Mapping[str, Entry | None]
    event: str
    edit_id: str


class Move(Transaction):
    """Write the files, then set the branch of HEAD."""

    def __init__(self, worktree: WorkTree, changes: Sequence[FileChange], way: Way) -> None:
        super().__init__(worktree, changes, edit_id=way.edit_id, event=way.event)
        self._way = way
        self._record = replace(self._record, moves_to=way.to)

    def _make_plan(self, status: Status, changes: Sequence[FileChange]) -> Plan:
        return plan_move(self._worktree, status, self._way.was, self._way.becomes)

    def move(self) -> None:
        """Set the branch, if HEAD is still where it was; the index follows. Raises Busy if it is not."""
        self._status_as_planned()
        self._record = record = replace(self._record, state=COMMITTING, commit=self._way.to or None)
        self._open().save(record.to_dict())
        with uninterrupted():
            where = ("HEAD", self._way.to) if self._way.to else ("-d", "HEAD")
            reason = f"repoagent: {record.event} {record.id}"
            git(self._worktree.top, "update-ref", "-m", reason, *where, record.head or "", read_only=False)
            self._end()

    def _find_commit(self) -> Made | None:
        return None

    def _end(self, made: Made | None = None) -> None:
        journal, record = self._open(), self._record
        if record.state == COMMITTING and (head(self._worktree) or "") == self._way.to:
            give_index(self._worktree, journal, record, {})
            archive(self._worktree, journal, record)
            self._close(journal)
        else:
            super()._end()
