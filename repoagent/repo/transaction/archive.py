"""Where a transaction goes when it has ended: an edit is kept for undo, and so are bytes that nobody else has."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from repoagent.repo.blobs import to_blob
from repoagent.repo.content import same
from repoagent.repo.index import Entry
from repoagent.repo.merge import Conflict
from repoagent.repo.project import project
from repoagent.repo.transaction.journaled import keep_steps, save
from repoagent.repo.transaction.lock import MARK
from repoagent.repo.transaction.record import DONE, Planned, Record
from repoagent.repo.transaction.user_index import COMMITTED, NEXT
from repoagent.repo.worktree import WorkTree, layout
from repoagent.repo.write.steps import Step
from repoagent.store import jsonl
from repoagent.store.folders import SystemFailed
from repoagent.store.journal import Journal, remove_folder

_KEPT = 100  # finished edits, for undo, and as many folders of what could not be put back


def edit_folder(worktree: WorkTree, edit_id: str) -> Path:
    """Where the bytes of a finished edit are kept, for undo."""
    return layout(worktree).private / "edits" / edit_id


def kept_folder(worktree: WorkTree, journal: Journal) -> Path:
    """Where the bytes will stay that could not be put back: a free name."""
    folder = layout(worktree).private / "kept" / journal.name
    number = 1
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{journal.name}-{number}")
    return folder


def kept_after(worktree: WorkTree, journal: Journal, record: Record, *, done: bool) -> Path:
    """What the journal's folder becomes when the transaction has ended, with its commit (`done`) or without, and there
    is something in it to be kept."""
    return (
        edit_folder(worktree, record.id)
        if done and record.event == "edit"
        else kept_folder(worktree, journal)
    )


def archive(worktree: WorkTree, journal: Journal, record: Record) -> None:
    """Write down what was done, durably, and end the journal. A failure after the first is left to the next
    command."""
    jsonl.append(layout(worktree).edits, _line(record))
    _end(worktree, journal, record)


def _end(worktree: WorkTree, journal: Journal, record: Record) -> None:
    if record.in_place:  # undo takes back from what the change has left to what was before it
        here = {step.path: step for step in record.steps}
        planned = tuple(
            replace(one, staged=_without(worktree, one, here.get(one.path))) for one in record.planned
        )
        done = (replace(step, old=step.was, new=step.done, was=None, done=None) for step in record.steps)
        record = replace(record, steps=tuple(done), planned=planned, in_place=False)
        keep_steps(journal, record)
    save(journal, replace(record, saved=(), uncommitted=(), state=DONE))
    with suppress(OSError, SystemFailed):
        shelve(worktree, journal, record)


def _without(worktree: WorkTree, planned: Planned, step: Step | None) -> Entry | None:
    """What was staged, without what of the change was in it: of a change that stood in the files the person may have
    staged something before the commit. Undo gives the index this back."""
    if planned.staged == planned.head or planned.renamed:
        return planned.staged
    after = planned.work
    if step is not None and not same(step.new, step.done):  # somebody has worked on top of the change
        after = None if step.done is None else to_blob(worktree, step.path, step.done, planned.staged)
    before = project(worktree, planned.stage, after, planned.base)
    return planned.staged if isinstance(before, Conflict) else before


def archived_before(worktree: WorkTree, journal: Journal, record: Record) -> bool:
    """Whether it was written down as done when a kill, or a failure, came; then its journal is ended as well."""
    lines = [line for line in jsonl.read(layout(worktree).edits) if line.get("id") == record.id]
    if not lines or lines[-1].get("event") != record.event:
        return False
    done = replace(record, commit=lines[-1].get("commit"), commits=not lines[-1].get("no_commit"))
    _end(worktree, journal, done)
    return True


def _line(record: Record) -> dict[str, object]:
    return {
        "version": 1,
        "event": record.event,
        "id": record.id,
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "branch": record.new_branch or record.branch,
        "commit": record.commit,
        "parent": record.head,
        "paths": [step.path for step in record.steps],
        "no_commit": not record.commits,
        "moved": record.moves_to not in (None, record.head or ""),
    }


def shelve(worktree: WorkTree, journal: Journal, record: Record) -> None:
    """End the journal of what is written down: that of an edit becomes what undo and redo need, others go unless
    they hold the user's bytes."""
    if record.event != "edit" and not any(journal.folder.glob("found-*")):
        journal.retire()
        return
    for name in (MARK, NEXT, COMMITTED, f"{NEXT}.lock", f"{COMMITTED}.lock"):
        journal.path(name).unlink(missing_ok=True)
    for saved in journal.folder.glob("saved-*"):
        saved.unlink(missing_ok=True)
    retire_to(journal, kept_after(worktree, journal, record, done=True))


def retire_to(journal: Journal, folder: Path) -> None:
    """End the journal; it becomes `folder`, and what was ended so long ago is removed."""
    journal.retire(folder)
    kept = (path for path in folder.parent.iterdir() if path.is_dir())
    for old in sorted(kept, key=lambda path: path.stat().st_mtime)[:-_KEPT]:
        remove_folder(old)
