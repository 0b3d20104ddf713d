"""A change of files that ends with HEAD on a commit that is there already, instead of making one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused
from repoagent.repo.change import FileChange
from repoagent.repo.commits import Commit, has_object, head_commit
from repoagent.repo.facts import current_branch
from repoagent.repo.index import Entry, read_entries
from repoagent.repo.merge import Conflict
from repoagent.repo.project import project
from repoagent.repo.run import GitError, git, uninterrupted
from repoagent.repo.status import Status
from repoagent.repo.transaction.archive import archive
from repoagent.repo.transaction.journaled import save
from repoagent.repo.transaction.left_locks import remove_left_locks
from repoagent.repo.transaction.plan import Plan, say_where
from repoagent.repo.transaction.record import COMMITTING, Planned, Record
from repoagent.repo.transaction.user_index import give_index
from repoagent.repo.transaction.versions import Versions
from repoagent.repo.transaction.writing import Writing
from repoagent.repo.worktree import WorkTree
from repoagent.store.journal import Journal


@dataclass(frozen=True)
class Way:
    """Of HEAD, from the commit `start` to the commit `to` ("": to none, the branch is unborn), which has
    `becomes` where `start` has `was`.

    `renamed` says for a path that appears which one it was. `staged` are the index entries where the edit has
    left them, with what they are to be again if all are as it left them.
    """

    start: str | None
    to: str
    was: Mapping[str, Entry | None]
    becomes: Mapping[str, Entry | None]
    renamed: Mapping[str, str]
    staged: Mapping[str, tuple[Entry | None, Entry | None]]


class Move(Writing):
    """Write the files, then set the branch of HEAD."""

    def __init__(
        self, worktree: WorkTree, changes: Sequence[FileChange], way: Way, event: str, edit_id: str
    ) -> None:
        super().__init__(worktree, changes, event, edit_id, commits=True)
        self._way = way
        self._record = replace(self._record, moves_to=way.to)

    def _make_plan(self, status: Status) -> Plan:
        return _plan(self._worktree, status, self._way)

    def move(self) -> None:
        """Set the branch, if HEAD is still where it was; the index follows. Raises Busy if it is not."""
        self._refuse_moved(head_commit(self._worktree), current_branch(self._worktree))
        self._record = record = replace(
            self._record, state=COMMITTING, commit=self._way.to or None, started=time.time_ns()
        )
        save(self._open(), record)
        with uninterrupted():
            if self._way.to != (self._way.start or ""):
                self._set_branch(record)
            self._end()

    def _set_branch(self, record: Record) -> None:
        where = ("HEAD", self._way.to) if self._way.to else ("-d", "HEAD")
        reason = f"repoagent: {record.event} {record.id}"
        try:
            git(self._worktree.top, "update-ref", "-m", reason, *where, record.head or "", read_only=False)
        except GitError as error:
            if error.returncode < 0:  # it was killed, perhaps when it had done it
                remove_left_locks(self._worktree, record)
            if (head_commit(self._worktree) or "") != self._way.to:
                raise Busy(f"the branch can't be set just now, try again: {error.stderr}") from error

    def _find_commit(self) -> Commit | None:
        return None

    def _finish(self, journal: Journal, made: Commit | None) -> None:
        record = self._record
        if record.state == COMMITTING and (head_commit(self._worktree) or "") == self._way.to:
            give_index(self._worktree, journal, record, {})
            archive(self._worktree, journal, record)
        else:
            super()._finish(journal, made)


def _plan(worktree: WorkTree, status: Status, way: Way) -> Plan:
    """The plan where HEAD moves along `way`: only the index is left to be planned.

    Raises Refused when something else is staged on the same lines, Busy when HEAD is not where it begins.
    """
    if status.head != way.start:
        raise Busy("HEAD was moved by another program just now: look at `git log` and try again")
    paths = [*way.was, *(path for path in way.staged if path not in way.was)]
    versions = Versions(worktree, status, read_entries(worktree, paths), include_dirty=False)
    as_left = all(versions.staged(path) == left for path, (left, _) in way.staged.items())
    planned = []
    for path in paths:
        staged, old, new = versions.staged(path), way.was.get(path), way.becomes.get(path)
        if path not in way.was:
            old = new = versions.in_head(path)
        stage = staged if old == new else _stage_moved(versions, way, path)
        if as_left and path in way.staged and _is_there(worktree, way.staged[path][1]):
            stage = way.staged[path][1]
        if isinstance(stage, Conflict):
            raise Refused(
                f"{path} has other staged changes{say_where(stage)}: commit, stash or unstage them first"
            )
        planned.append(Planned(path, old, staged, old, new, new, stage, versions.index.get(path)))
    return Plan(status.head, status.branch, tuple(planned), tuple(status.changed))


def _stage_moved(versions: Versions, way: Way, path: str) -> Entry | Conflict | None:
    """What is staged at `path` with the change of HEAD; other staged work follows a rename."""
    if path in way.renamed.values():
        return None
    source = way.renamed.get(path, path)
    if source != path and versions.staged(path) is not None:
        return Conflict()
    return project(versions.worktree, versions.staged(source), way.was[source], way.becomes[path])


def _is_there(worktree: WorkTree, entry: Entry | None) -> bool:
    """Whether the blob is still kept: what was only staged once may be gone."""
    return entry is None or has_object(worktree, entry.oid)
