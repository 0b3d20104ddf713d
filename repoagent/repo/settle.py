"""The two ends of a transaction, a live one or a crashed one: all of it is there, or none of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from repoagent.repo import lock
from repoagent.repo.blobs import from_blob
from repoagent.repo.branches import switch_back
from repoagent.repo.commit import Made, with_other_tree
from repoagent.repo.content import look
from repoagent.repo.hooks import Verdict, judge
from repoagent.repo.index import Entry, copy_index, index_path, put_entries, refresh
from repoagent.repo.others import put_right
from repoagent.repo.record import DONE, Record, keep_steps
from repoagent.repo.steps import Step, take_back
from repoagent.repo.worktree import WorkTree, layout
from repoagent.store import jsonl
from repoagent.store.journal import Journal, remove_folder

_NEXT = "next"  # the index to be
TEMPORARY = "index"  # the index that git commits
_KEPT = 100  # finished edits, for undo, and as many folders of what could not be put back


@dataclass(frozen=True)
class CommitResult:
    """The commit. `folded` are paths where what a hook made of them is in it, `taken_out` those where a hook
    had added the user's other work, which is out again, `restored` files of the user that a hook had changed
    and that are as they were. `output` is what git and the hooks printed."""

    commit: str
    parent: str | None
    branch: str | None
    folded: tuple[str, ...] = ()
    taken_out: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    output: bytes = b""


def settle(
    worktree: WorkTree,
    journal: Journal,
    record: Record,
    made: Made,
    *,
    key: str | None = None,
    leave: Collection[str] = (),
) -> CommitResult:
    """After the commit `made`: what hooks swept in goes out of it, the user's files and index are put right,
    the lock is released, and the journal becomes the record of the edit.

    `key` signs a commit that has to be made again. The index entries `leave` stay as they are.
    """
    verdict = judge(worktree, record, made)
    commit = made.commit
    if verdict.corrections:
        commit = with_other_tree(worktree, journal.path(TEMPORARY), made, verdict.corrections, key)
    restored = put_right(worktree.top, journal, record.saved)
    give_index(worktree, journal, record, verdict.stage, leave)
    done = replace(record, commit=commit, steps=_steps_done(worktree, record, made, verdict))
    if done.steps != record.steps:
        keep_steps(journal, done)
    archive(worktree, journal, done)
    return CommitResult(
        commit,
        made.parent,
        record.new_branch or record.branch,
        tuple(verdict.folded),
        tuple(verdict.taken_out),
        tuple(restored),
    )


def _steps_done(worktree: WorkTree, record: Record, made: Made, verdict: Verdict) -> tuple[Step, ...]:
    """The steps as hooks have made them, and those that hooks have added: undo must know."""
    done = [
        replace(step, new=look(worktree.top, step.path)) if step.path in verdict.folded else step
        for step in record.steps
    ]
    own = {step.path for step in record.steps}
    for path in verdict.folded:
        if path not in own:
            before = made.was[path]
            old = None if before is None else from_blob(worktree, path, before)
            done.append(Step(path, old, look(worktree.top, path), f"{record.id}-{len(done)}"))
    return tuple(done)


def give_index(
    worktree: WorkTree,
    journal: Journal,
    record: Record,
    other: Mapping[str, Entry | None],
    leave: Collection[str] = (),
) -> None:
    """Put the change, and the `other` entries, into the user's index, and end the lock.

    Raises Busy when somebody has removed our lock and holds one now: recovery does it later.
    """
    if not lock.is_ours(worktree, journal):
        lock.take(worktree, journal)
    file = journal.path(_NEXT)
    copy_index(worktree, file)
    entries = {**{planned.path: planned.stage for planned in record.planned}, **other}
    entries = {path: entry for path, entry in entries.items() if path not in leave}
    put_entries(worktree, file, entries, {p.path: p.bits for p in record.planned if p.bits})
    refresh(
        worktree, file, [path for path, entry in entries.items() if entry and (worktree.top / path).exists()]
    )
    if file.exists():
        file.replace(index_path(worktree))
    lock.release(worktree, journal)


def roll_back(worktree: WorkTree, journal: Journal, record: Record) -> list[str]:
    """Make everything what it was before; the journal ends.

    A file that holds anything but what we wrote is left as it is and returned; the journal's folder, with the
    bytes before and after, then is kept under `kept`.
    """
    left = [step.path for step in reversed(record.steps) if not take_back(worktree.top, step)]
    for folder in record.folders:
        with suppress(OSError):  # not empty: something else is in it by now
            (worktree.top / folder).rmdir()
    put_right(worktree.top, journal, record.saved)
    if record.new_branch is not None:
        switch_back(worktree, record.new_branch, record.head, record.branch)
    if record.commits:
        lock.release(worktree, journal)
    if left or any(journal.folder.glob("found-*")):
        kept = kept_folder(worktree, journal)
        journal.retire(kept)
        _prune(kept.parent)
    else:
        journal.retire()
    return left


def kept_folder(worktree: WorkTree, journal: Journal) -> Path:
    """Where the bytes will stay that could not be put back: a free name."""
    folder = layout(worktree).private / "kept" / journal.name
    number = 1
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{journal.name}-{number}")
    return folder


def edit_folder(worktree: WorkTree, edit_id: str) -> Path:
    """Where the bytes of a finished edit are kept, for undo."""
    return layout(worktree).private / "edits" / edit_id


def archive(worktree: WorkTree, journal: Journal, record: Record) -> None:
    """The journal of a finished edit becomes what undo and redo need; each of them only leaves a line."""
    line = {
        "version": 1,
        "event": record.event,
        "id": record.id,
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "branch": record.new_branch or record.branch,
        "commit": record.commit,
        "parent": record.head,
        "paths": [step.path for step in record.steps],
        "no_commit": not record.commits,
    }
    jsonl.append(layout(worktree).edits, line)
    journal.save(replace(record, saved=(), uncommitted=(), state=DONE).to_dict())
    shelve(worktree, journal, record)


def shelve(worktree: WorkTree, journal: Journal, record: Record) -> None:
    """The last part of `archive`."""
    if record.event != "edit":
        journal.retire()
        return
    for name in (_NEXT, TEMPORARY, lock.MARK, *(path.name for path in journal.folder.glob("saved-*"))):
        journal.path(name).unlink(missing_ok=True)
    folder = edit_folder(worktree, record.id)
    journal.retire(folder)
    _prune(folder.parent)


def _prune(folder: Path) -> None:
    kept = sorted((path for path in folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for old in kept[:-_KEPT]:
        remove_folder(old)
