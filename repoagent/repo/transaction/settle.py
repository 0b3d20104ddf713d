"""Complete a transaction that has its commit, a live one or a crashed one: all of it is there then."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from repoagent.repo.blobs import from_blob
from repoagent.repo.commits import Commit
from repoagent.repo.content import Content, look
from repoagent.repo.index import Entry
from repoagent.repo.transaction.archive import archive, kept_after
from repoagent.repo.transaction.find import committed_since
from repoagent.repo.transaction.hooks import Verdict, judge
from repoagent.repo.transaction.in_place import committed
from repoagent.repo.transaction.journaled import keep_steps
from repoagent.repo.transaction.other_files import put_right
from repoagent.repo.transaction.record import Record
from repoagent.repo.transaction.results import CommitResult
from repoagent.repo.transaction.swept_in import left_in, take_out
from repoagent.repo.transaction.user_index import COMMITTED, give_index, take_over
from repoagent.repo.transaction.waiting import give_back
from repoagent.repo.worktree import WorkTree
from repoagent.repo.write.steps import Step
from repoagent.store.journal import Journal


def settle(
    worktree: WorkTree,
    journal: Journal,
    record: Record,
    made: Commit,
    *,
    key: str | None = None,
    leave: Collection[str] = (),
    nothing_staged: bool = False,
) -> CommitResult:
    """After the commit `made`: what hooks swept in goes out of it, the user's files and index are put right,
    the lock is released, and the journal becomes the record of the edit.

    `key` signs a commit that has to be made again. The index entries `leave` stay as they are. `nothing_staged`
    says that the index was as HEAD before, and nobody else had it since. Raises Busy where somebody else holds
    the index now, and GitError or OSError; it can be called again then. Raises Withdrawn where the commit is taken
    back: all else is to be, too.
    """
    verdict = judge(worktree, record, made)
    stage = {**{planned.path: planned.stage for planned in record.planned}, **verdict.stage}
    since = committed_since(worktree, journal.path(COMMITTED), made, stage)
    corrected = take_out(worktree, journal, record, made, verdict, key=key)
    if corrected.oid == made.oid:
        stage.update(left_in(worktree, made, verdict, stage))
    stage.update(since)
    others = put_right(worktree, journal, record)
    kept = others.said(kept_after(worktree, journal, record, done=True))
    as_planned = nothing_staged and not since and _is_as_planned(record, verdict)
    if not (as_planned and take_over(worktree, journal, made.oid)):
        give_index(worktree, journal, record, stage, leave)
    give_back(worktree, journal)
    done = replace(record, commit=corrected.oid, steps=_steps_done(worktree, record, made, verdict))
    if done.steps != record.steps:
        keep_steps(journal, done)
    archive(worktree, journal, done)
    return CommitResult(
        corrected.oid,
        made.parent,
        record.new_branch or record.branch,
        tuple(verdict.folded),
        corrected.taken_out,
        others.restored,
        (*kept, *corrected.notes, *_said_of_later(since)),
    )


def _is_as_planned(record: Record, verdict: Verdict) -> bool:
    """Whether hooks have changed nothing in the commit, and all of it is what is to be staged."""
    unchanged = not (verdict.corrections or verdict.folded)
    return unchanged and all(planned.stage == planned.commit for planned in record.planned)


def _said_of_later(since: Mapping[str, Entry | None]) -> tuple[str, ...]:
    return (f"a hook has committed on top of it: {', '.join(sorted(since))}",) if since else ()


def _steps_done(worktree: WorkTree, record: Record, made: Commit, verdict: Verdict) -> tuple[Step, ...]:
    """The steps as hooks have made them, and those that hooks have added: undo must know. What is in a file may be a
    save of the user's; the commit has what the hook made of it."""

    def committed_as(path: str) -> Content | None:
        right = verdict.corrections.get(path, made.changed.get(path))
        return None if right is None else from_blob(worktree, path, right)

    planned = {one.path: one for one in record.planned}
    done = []
    for step in record.steps:
        if step.path not in verdict.folded:
            done.append(step)
        elif record.in_place:
            right = verdict.corrections.get(step.path, made.changed.get(step.path))
            done.append(committed(worktree, step, planned[step.path], right, look(worktree.top, step.path)))
        elif planned[step.path].has_other_work:
            done.append(replace(step, new=look(worktree.top, step.path)))
        else:
            done.append(replace(step, new=committed_as(step.path)))
    own = {step.path for step in record.steps}
    for path in verdict.folded:
        if path not in own:
            before = made.was[path]
            old = None if before is None else from_blob(worktree, path, before)
            temporary = f"{record.id}-{len(done)}"
            if record.in_place:
                there = look(worktree.top, path)
                done.append(Step(path, there, there, temporary, was=old, done=committed_as(path)))
            else:
                done.append(Step(path, old, committed_as(path), temporary))
    return tuple(done)
