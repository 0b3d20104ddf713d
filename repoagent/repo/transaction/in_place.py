"""Changes that the work tree holds already, perhaps with somebody's work on top of them: that is not touched."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace

from repoagent.dataclass import dataclass
from repoagent.repo.blobs import from_blob
from repoagent.repo.content import Content, same
from repoagent.repo.index import Entry
from repoagent.repo.merge import Conflict, merge
from repoagent.repo.transaction.record import Planned
from repoagent.repo.worktree import WorkTree
from repoagent.repo.write.steps import Step


@dataclass(frozen=True)
class InPlace:
    """How the files stand. `found` is what is at the paths that do not hold what their change has left there, for
    somebody has worked on them since (None: no file): it stays as it is, and uncommitted. Only at the paths `whole` it
    is committed as it stands."""

    found: Mapping[str, Content | None] = field(default_factory=dict)
    whole: Collection[str] = ()

    def as_found(self, steps: Sequence[Step]) -> InPlace:
        """The same with what hooks have made of the files, as the steps have it."""
        return replace(self, found={step.path: step.new for step in steps if not same(step.new, step.done)})


def rewritten(worktree: WorkTree, step: Step, now: Content | None) -> Step:
    """The step of a change in place when a hook has made `now` of the file: what it did is a part of the change, what
    somebody else did is none. On the same lines it stays out."""
    done = now if same(step.new, step.done) else _carried(worktree, step.done, step.new, now)
    return replace(step, new=now, done=done)


def committed(
    worktree: WorkTree, step: Step, planned: Planned, right: Entry | None, now: Content | None
) -> Step:
    """The step of a change in place of which a hook has made `right` in the commit; the file holds `now`."""
    if same(step.new, step.done):
        return replace(step, new=now, done=now)
    before, after = (
        None if entry is None else from_blob(worktree, step.path, entry) for entry in (planned.commit, right)
    )
    return replace(step, new=now, done=_carried(worktree, step.done, before, after))


def _carried(
    worktree: WorkTree, done: Content | None, before: Content | None, after: Content | None
) -> Content | None:
    if (
        done is None
        or before is None
        or after is None
        or {done.is_link, before.is_link, after.is_link} != {False}
    ):
        return done
    merged = merge(worktree, done.data, before.data, after.data, exact=True)
    return done if isinstance(merged, Conflict) else replace(done, data=merged)
