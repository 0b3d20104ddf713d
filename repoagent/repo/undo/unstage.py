"""A change that was left uncommitted is taken back, where the person has staged it since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from repoagent.errors import Busy
from repoagent.repo.blobs import to_blob
from repoagent.repo.change import FileChange
from repoagent.repo.commits import head_commit
from repoagent.repo.content import Content
from repoagent.repo.index import Entry, read_entries
from repoagent.repo.merge import Conflict
from repoagent.repo.project import project
from repoagent.repo.status import Status, read_status
from repoagent.repo.transaction.plan import Plan
from repoagent.repo.transaction.record import Planned
from repoagent.repo.transaction.versions import Versions
from repoagent.repo.undo.move import Move, Way
from repoagent.repo.worktree import WorkTree
from repoagent.repo.write.steps import Step


def taken_out(
    worktree: WorkTree, changes: Sequence[FileChange], steps: Sequence[Step], event: str, edit_id: str
) -> bool:
    """Write `changes`, which take `steps` back, and take out of the index what is staged of those, all else kept; in a
    merge too, for HEAD stays where it is. False, and nothing done, where nothing of them is staged.

    What is staged on the same lines and is not the change stays, too. Raises what a Transaction raises.
    """
    if not any(_planned(worktree, read_status(worktree), steps)):
        return False
    with _Unstage(worktree, changes, steps, event, edit_id) as back:
        back.write()
        back.move()
    return True


class _Unstage(Move):
    """Write the files, then the index."""

    _is_for_head = False

    def __init__(
        self,
        worktree: WorkTree,
        changes: Sequence[FileChange],
        back: Sequence[Step],
        event: str,
        edit_id: str,
    ) -> None:
        head = head_commit(worktree)
        super().__init__(worktree, changes, Way(head, head or "", {}, {}, {}, {}), event, edit_id)
        self._back = back

    def _make_plan(self, status: Status) -> Plan:
        if status.head != self._way.start:
            raise Busy("HEAD was moved by another program just now: look at `git log` and try again")
        planned = tuple(_planned(self._worktree, status, self._back))
        return Plan(status.head, status.branch, planned, tuple(status.changed))


def _planned(worktree: WorkTree, status: Status, back: Sequence[Step]) -> Iterator[Planned]:
    """The entries of the index that are to be others. What HEAD has of a step too is not staged, but committed."""
    steps = {step.path: step for step in back if step.path in status.changed}
    index = read_entries(worktree, steps) if steps else {}
    versions = Versions(worktree, status, index, include_dirty=False)
    for path, step in steps.items():
        head, staged = versions.in_head(path), versions.staged(path)
        announced = status.changed[path].intent_to_add and step.old is None  # a new file, by `git add -N`
        if staged == head and not announced:
            continue
        before, after = (_blob(versions, path, content) for content in (step.old, step.new))
        without = project(worktree, head, after, before)
        if without != head and not isinstance(without, Conflict):
            continue
        stage = project(worktree, staged, after, before)
        if isinstance(stage, Conflict):  # the person has staged something else on these lines: it is theirs
            continue
        if stage != staged or announced:
            yield Planned(path, head, staged, head, head, head, stage, index.get(path))


def _blob(versions: Versions, path: str, content: Content | None) -> Entry | None:
    return None if content is None else to_blob(versions.worktree, path, content, versions.staged(path))
