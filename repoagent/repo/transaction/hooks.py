"""What hooks made of a commit: a formatter's work is kept, the user's other work is taken out again."""

from __future__ import annotations

from dataclasses import field

from repoagent.dataclass import dataclass
from repoagent.repo.blobs import from_blob, to_blob
from repoagent.repo.commits import Commit
from repoagent.repo.content import look, same
from repoagent.repo.index import Entry
from repoagent.repo.merge import Conflict
from repoagent.repo.project import project
from repoagent.repo.transaction.record import Planned, Record
from repoagent.repo.worktree import WorkTree
from repoagent.repo.write import put
from repoagent.repo.write.steps import Step

# File systems keep times coarsely: a file made by a hook may look a little older than the hook.
_COARSE_NS = 20_000_000


@dataclass
class Verdict:
    """What the commit must have instead (`corrections`), and the index (`stage`).

    `folded` and `taken_out` are the paths where a hook's work was accepted, and where other work was not.
    """

    corrections: dict[str, Entry | None] = field(default_factory=dict)
    stage: dict[str, Entry | None] = field(default_factory=dict)
    folded: list[str] = field(default_factory=list)
    taken_out: list[str] = field(default_factory=list)


def judge(worktree: WorkTree, record: Record, made: Commit) -> Verdict:
    """Compare the commit with the plan."""
    verdict = Verdict()
    own = {planned.path: planned for planned in record.planned}
    steps = {step.path: step for step in record.steps}
    expected = {p.path: p.commit for p in record.planned if p.commit != p.in_head}
    for path in sorted(expected.keys() | made.changed.keys()):
        if path in expected and path in made.changed and expected[path] == made.changed[path]:
            continue
        if path in own:
            found = made.changed[path] if path in made.changed else own[path].in_head
            _judge_own(worktree, own[path], steps.get(path), found, verdict)
        elif path in record.uncommitted or (made.was[path] is None and _was_there(worktree, record, path)):
            verdict.corrections[path] = made.was[path]
            verdict.taken_out.append(path)
        else:
            verdict.stage[path] = made.changed[path]
            verdict.folded.append(path)
    return verdict


def _judge_own(
    worktree: WorkTree, planned: Planned, step: Step | None, found: Entry | None, verdict: Verdict
) -> None:
    """A file of the edit that a hook has staged again. Where the user has other work in it, that has come
    along: then only what the hook changed is carried over."""
    right = found
    if step is not None and planned.has_other_work and planned.commit != planned.work:
        whole = _whole(worktree, planned, step)
        if found in (whole, planned.work):
            again = project(worktree, planned.commit, planned.work, whole)
            right = planned.commit if isinstance(again, Conflict) else again
    if right != found:
        verdict.corrections[planned.path] = right
        verdict.taken_out.append(planned.path)
    if right != planned.commit:
        verdict.folded.append(planned.path)
        stage = project(worktree, planned.stage, planned.commit, right)
        if not isinstance(stage, Conflict):
            verdict.stage[planned.path] = stage
        _into_work_tree(worktree, planned, step, right)


def _whole(worktree: WorkTree, planned: Planned, step: Step) -> Entry | None:
    """The file as it is now in the repository's form."""
    now = look(worktree.top, planned.path)
    if same(now, step.new):
        return planned.work
    return None if now is None else to_blob(worktree, planned.path, now, planned.staged)


def _into_work_tree(worktree: WorkTree, planned: Planned, step: Step | None, right: Entry | None) -> None:
    """Where a hook rewrote only what was staged, the file follows, unless it holds anything but our bytes."""
    if step is None or planned.has_other_work or not same(look(worktree.top, planned.path), step.new):
        return
    new = None if right is None else from_blob(worktree, planned.path, right)
    put(worktree.top, planned.path, step.new, new, step.temporary)


def _was_there(worktree: WorkTree, record: Record, path: str) -> bool:
    """Whether an untracked file that a hook added is the user's: it is older than the hook."""
    try:
        changed = (worktree.top / path).lstat().st_ctime_ns
    except OSError:
        return False
    return record.started is not None and changed < record.started - _COARSE_NS
