"""The user's other work in the files of the edit itself: put back where a hook has lost it.

A hook that looks at the committed text alone (`git stash --keep-index`, `git checkout -- .`) and fails, or is
killed, before it gives the rest back, leaves the file without it. What the hook made of that text, as
formatters do, is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from repoagent.repo.blobs import from_blob
from repoagent.repo.content import Content, look, same
from repoagent.repo.merge import Conflict, merge
from repoagent.repo.transaction.other_files import has_hooks, keep_free
from repoagent.repo.transaction.record import COMMITTING, Planned, Record
from repoagent.repo.transaction.results import Meanwhile
from repoagent.repo.worktree import WorkTree
from repoagent.repo.write import Moved, put
from repoagent.repo.write.steps import Step
from repoagent.store.journal import Journal


def put_back(worktree: WorkTree, journal: Journal, record: Record) -> Meanwhile:
    """Put the lost work back. What was found instead is kept in the journal's folder as `found-own-N`."""
    restored = []
    hooks = None
    for step, planned in _mixed(record):
        now = look(worktree.top, step.path)
        if same(now, step.new) or step.new is None:
            continue
        if now is not None:
            hooks = has_hooks(worktree) if hooks is None else hooks
            if not hooks or not _is_lost(worktree, planned, step.new, now):
                continue
        whole = step.new if now is None else _with_work(worktree, planned, step.new, now)
        if same(now, whole):
            continue
        if now is not None:
            keep_free(journal, "found-own", now)
        try:
            put(worktree.top, step.path, now, whole, step.temporary)
        except Moved:  # it was saved in this instant
            continue
        restored.append(step.path)
    return Meanwhile(tuple(restored))


def taken_for_ours(worktree: WorkTree, record: Record) -> Record:
    """The record with steps that can be taken back where hooks were killed between a stash and its pop: the
    file then is just what was to be committed, or missing."""
    if record.state != COMMITTING:
        return record
    mixed = {step.path: planned for step, planned in _mixed(record)}
    steps = []
    for step in record.steps:
        now = look(worktree.top, step.path)
        planned = mixed.get(step.path)
        lost = now is None or (planned is not None and same(now, _checked_out(worktree, planned)))
        steps.append(replace(step, new=now) if lost else step)
    return replace(record, steps=tuple(steps))


def _mixed(record: Record) -> Iterator[tuple[Step, Planned]]:
    """The files that hold more than what is committed."""
    planned = {one.path: one for one in record.planned}
    for step in record.steps:
        one = planned.get(step.path)
        if one is not None and one.has_other_work and one.commit != one.work and step.new is not None:
            yield step, one


def _is_lost(worktree: WorkTree, planned: Planned, ours: Content, now: Content) -> bool:
    """Whether none of the user's other lines is in the file any more: a hook has taken them, not a save."""
    base = _checked_out(worktree, planned)
    lines = set(ours.data.splitlines()) - set(() if base is None else base.data.splitlines())
    return lines.isdisjoint(now.data.splitlines())


def _with_work(worktree: WorkTree, planned: Planned, ours: Content, now: Content) -> Content:
    """The file as a hook left it, with the user's work; as it is where that is on the same lines."""
    base = _checked_out(worktree, planned)
    if base is None or now.is_link or ours.is_link:
        return now
    merged = merge(worktree, now.data, base.data, ours.data, exact=True)
    return now if isinstance(merged, Conflict) else replace(now, data=merged)


def _checked_out(worktree: WorkTree, planned: Planned) -> Content | None:
    """What a checkout of what is committed writes."""
    return None if planned.commit is None else from_blob(worktree, planned.path, planned.commit)
