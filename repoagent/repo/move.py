"""A transaction that ends with HEAD on a commit that is there already, instead of making one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from repoagent.errors import Busy, Refused
from repoagent.repo import lock
from repoagent.repo.change import FileChange
from repoagent.repo.commit import Made, head
from repoagent.repo.index import Entry, Status, read_entries
from repoagent.repo.plan import Plan, Tree, say_where
from repoagent.repo.project import Conflict, project
from repoagent.repo.record import COMMITTING, Planned
from repoagent.repo.run import GitError, git, git_output, uninterrupted
from repoagent.repo.settle import archive, give_index
from repoagent.repo.transaction import Transaction
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


class Move(Transaction):
    """Write the files, then set the branch of HEAD."""

    def __init__(
        self, worktree: WorkTree, changes: Sequence[FileChange], way: Way, event: str, edit_id: str
    ) -> None:
        super().__init__(worktree, changes, edit_id=edit_id, event=event)
        self._way = way
        self._record = replace(self._record, moves_to=way.to)

    def _make_plan(self, status: Status, changes: Sequence[FileChange]) -> Plan:
        return _plan(self._worktree, status, self._way)

    def move(self) -> None:
        """Set the branch, if HEAD is still where it was; the index follows. Raises Busy if it is not."""
        self._status_as_planned()
        self._record = record = replace(
            self._record, state=COMMITTING, commit=self._way.to or None, started=time.time_ns()
        )
        self._open().save(record.to_dict())
        with uninterrupted():
            where = ("HEAD", self._way.to) if self._way.to else ("-d", "HEAD")
            reason = f"repoagent: {record.event} {record.id}"
            try:
                git(
                    self._worktree.top, "update-ref", "-m", reason, *where, record.head or "", read_only=False
                )
            except GitError as error:
                if error.returncode < 0:  # it was killed, perhaps when it had done it
                    lock.remove_left(self._worktree, record)
                if (head(self._worktree) or "") != self._way.to:
                    raise Busy(f"the branch can't be set just now, try again: {error.stderr}") from error
            self._end()

    def _find_commit(self) -> Made | None:
        return None

    def _finish(self, journal: Journal, made: Made | None) -> None:
        record = self._record
        if record.state == COMMITTING and (head(self._worktree) or "") == self._way.to:
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
    tree = Tree(worktree, status, read_entries(worktree, paths), include_dirty=False)
    as_left = all(tree.staged(path) == left for path, (left, _) in way.staged.items())
    planned = []
    for path in paths:
        staged, old, new = tree.staged(path), way.was.get(path), way.becomes.get(path)
        if path not in way.was:
            old = new = tree.in_head(path)
        stage = staged if old == new else _stage_moved(tree, way, path)
        if as_left and path in way.staged and _is_there(worktree, way.staged[path][1]):
            stage = way.staged[path][1]
        if isinstance(stage, Conflict):
            raise Refused(
                f"{path} has other staged changes{say_where(stage)}: commit, stash or unstage them first"
            )
        planned.append(Planned(path, old, staged, old, new, new, stage, tree.index.get(path)))
    return Plan(status.head, status.branch, tuple(planned), tuple(status.changed))


def _stage_moved(tree: Tree, way: Way, path: str) -> Entry | Conflict | None:
    """What is staged at `path` with the change of HEAD; other staged work follows a rename."""
    if path in way.renamed.values():
        return None
    source = way.renamed.get(path, path)
    if source != path and tree.staged(path) is not None:
        return Conflict()
    return project(tree.worktree, tree.staged(source), way.was[source], way.becomes[path])


def _is_there(worktree: WorkTree, entry: Entry | None) -> bool:
    """Whether the blob is still kept: what was only staged once may be gone."""
    return (
        entry is None or not git_output(worktree.top, "cat-file", "-e", entry.oid, ok=(0, 1, 128)).returncode
    )
