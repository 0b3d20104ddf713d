"""The two ends of a transaction, complete and roll back, and the recovery after a crash, which picks one of them.

A finished edit becomes a folder of `edits/` for undo. Bytes that could not be put back become a folder of `kept/`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from repoagent.git.file_writer import Moved, Step, revert_step, write_file
from repoagent.git.files import Content, look, same
from repoagent.git.index import Entry, staged_entries
from repoagent.git.merge import Conflict, carry, project
from repoagent.git.objects import Commit, from_blob, head_commit, read_commit, switch_back, to_blob
from repoagent.git.process import uninterrupted
from repoagent.git.transaction import locks
from repoagent.git.transaction.commit import committed_since, find_commit, has_moved
from repoagent.git.transaction.hooks import (
    CommitWithdrawn,
    HookVerdict,
    judge_commit,
    remove_other_work,
    uncorrected_entries,
)
from repoagent.git.transaction.journal import COMMITTING, DONE, PlannedPath, Record, keep_steps, load, save
from repoagent.git.transaction.locks import LOCK_FILE, remove_stale_ref_locks
from repoagent.git.transaction.other_files import (
    COMMITTED,
    NEXT,
    has_hooks,
    install_committed_index,
    keep_copy,
    restore_other_files,
    restore_pending_messages,
    update_user_index,
    with_lost_files,
)
from repoagent.git.transaction.results import (
    KEPT_FOLDER,
    CommitResult,
    OtherChanges,
    restored_notes,
    step_as_committed,
)
from repoagent.git.worktree import WorkTree, layout
from repoagent.storage import json_files
from repoagent.storage.folders import SystemFailed
from repoagent.storage.journal import Journal, abandoned, remove_folder

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


def folder_after(worktree: WorkTree, journal: Journal, record: Record, *, done: bool) -> Path:
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
    json_files.append_record(layout(worktree).edits, _line(record))
    _end(worktree, journal, record)


def _end(worktree: WorkTree, journal: Journal, record: Record) -> None:
    if record.in_place:  # undo takes back from what the change has left to what was before it
        here = {step.path: step for step in record.steps}
        planned = tuple(
            replace(one, staged=_staged_without(worktree, one, here.get(one.path))) for one in record.planned
        )
        done = (replace(step, old=step.was, new=step.done, was=None, done=None) for step in record.steps)
        record = replace(record, steps=tuple(done), planned=planned, in_place=False)
        keep_steps(journal, record)
    save(journal, replace(record, saved=(), uncommitted=(), state=DONE))
    with suppress(OSError, SystemFailed):
        archive_folder(worktree, journal, record)


def _staged_without(worktree: WorkTree, planned: PlannedPath, step: Step | None) -> Entry | None:
    """What was staged, without what of the change was in it: of a change that stood in the files the person may have
    staged something before the commit. Undo gives the index this back."""
    if planned.staged == planned.head or planned.renamed:
        return planned.staged
    after = planned.work
    if step is not None and not same(step.new, step.done):  # somebody has worked on top of the change
        after = None if step.done is None else to_blob(worktree, step.path, step.done, planned.staged)
    before = project(worktree, planned.stage, after, planned.base)
    return planned.staged if isinstance(before, Conflict) else before


def end_if_archived(worktree: WorkTree, journal: Journal, record: Record) -> bool:
    """Whether it was written down as done when a kill, or a failure, came; then its journal is ended as well."""
    lines = [line for line in json_files.read_records(layout(worktree).edits) if line.get("id") == record.id]
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


def archive_folder(worktree: WorkTree, journal: Journal, record: Record) -> None:
    """End the journal of what is written down: that of an edit becomes what undo and redo need, others go unless
    they hold the user's bytes."""
    if record.event != "edit" and not any(journal.folder.glob("found-*")):
        journal.retire()
        return
    for name in (LOCK_FILE, NEXT, COMMITTED, f"{NEXT}.lock", f"{COMMITTED}.lock"):
        journal.path(name).unlink(missing_ok=True)
    for saved in journal.folder.glob("saved-*"):
        saved.unlink(missing_ok=True)
    retire_to(journal, folder_after(worktree, journal, record, done=True))


def retire_to(journal: Journal, folder: Path) -> None:
    """End the journal; it becomes `folder`, and what was ended so long ago is removed."""
    journal.retire(folder)
    kept = (path for path in folder.parent.iterdir() if path.is_dir())
    for old in sorted(kept, key=lambda path: path.stat().st_mtime)[:-_KEPT]:
        remove_folder(old)


def complete(
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
    verdict = judge_commit(worktree, record, made)
    stage = {**{planned.path: planned.stage for planned in record.planned}, **verdict.stage}
    since = committed_since(worktree, journal.path(COMMITTED), made, stage)
    corrected = remove_other_work(worktree, journal, record, made, verdict, key=key)
    if corrected.oid == made.oid:
        stage.update(uncorrected_entries(worktree, made, verdict, stage))
    stage.update(since)
    others = restore_other_files(worktree, journal, record)
    kept = others.notes(folder_after(worktree, journal, record, done=True))
    as_planned = nothing_staged and not since and _is_as_planned(record, verdict)
    if not (as_planned and install_committed_index(worktree, journal, made.oid)):
        update_user_index(worktree, journal, record, stage, leave)
    restore_pending_messages(worktree, journal)
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
        (*kept, *corrected.notes, *_later_commit_notes(since)),
    )


def _is_as_planned(record: Record, verdict: HookVerdict) -> bool:
    """Whether hooks have changed nothing in the commit, and all of it is what is to be staged."""
    unchanged = not (verdict.corrections or verdict.folded)
    return unchanged and all(planned.stage == planned.commit for planned in record.planned)


def _later_commit_notes(since: Mapping[str, Entry | None]) -> tuple[str, ...]:
    return (f"a hook made another commit on top of it: {', '.join(sorted(since))}",) if since else ()


def _steps_done(worktree: WorkTree, record: Record, made: Commit, verdict: HookVerdict) -> tuple[Step, ...]:
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
            done.append(
                step_as_committed(worktree, step, planned[step.path], right, look(worktree.top, step.path))
            )
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


_TRIES = 3  # how often a file may be saved in the moment in which the edit is taken out of it
_LAYOUT = re.compile(rb"[\s'\"`,;()\\]+")  # what formatters change


def roll_back(worktree: WorkTree, journal: Journal, record: Record) -> OtherChanges:
    """Make everything what it was before; the journal ends.

    Where a file of the edit was saved since, the edit alone is taken out of it. Where that can't be done the file is
    left as it is. Either is in what is returned. If bytes are left that the user may want, the journal's folder is kept
    under `kept`.
    """
    others = OtherChanges()
    home = folder_after(worktree, journal, record, done=False)
    written = replace(record, steps=tuple(_as_written(step) for step in record.steps))
    for number, step in reversed(list(enumerate(with_lost_files(worktree, written).steps))):
        if not revert_step(worktree.top, step):
            others += _without_edit(worktree, journal, record, number, step)
    for folder in record.folders:
        with suppress(OSError):  # not empty: something else is in it by now
            (worktree.top / folder).rmdir()
    others += restore_other_files(worktree, journal, record)
    restore_pending_messages(worktree, journal)
    if record.new_branch is not None:
        switch_back(worktree, record.new_branch, record.head, record.branch, record.id)
    if record.commits:
        locks.release(worktree, journal)
    if others.left or any(journal.folder.glob("found-*")):
        retire_to(journal, home)
    else:
        journal.retire()
    return others


def _as_written(step: Step) -> Step:
    """The step with what it has written itself, not with what was found after hooks."""
    return step if step.wrote is None else replace(step, new=step.wrote, wrote=None)


def _without_edit(
    worktree: WorkTree, journal: Journal, record: Record, number: int, step: Step
) -> OtherChanges:
    """Take the edit out of a file that holds something else besides, by a three-way merge as `undo` does."""
    path = step.path
    for _ in range(_TRIES):
        found = look(worktree.top, path)
        by_hook = record.state == COMMITTING and _is_reformatted(found, step.new) and has_hooks(worktree)
        if by_hook:
            target: Content | Conflict | None = step.old
        elif step.new is None:  # the edit had deleted it: nothing of the edit is in it
            target = found
        else:
            target = carry(worktree, found, step.new, step.old)
        if isinstance(target, Conflict):
            if not _is_staged(worktree, journal, record, step, found):
                break
            by_hook, target = True, step.old
        try:
            write_file(worktree.top, path, found, target, step.temporary, permissions=step.permissions)
        except Moved:  # it was saved in this instant
            continue
        if by_hook and found is not None:
            copy = keep_copy(journal, "found-own", found)
            return OtherChanges(sentences=(f"the hook's version of {path} is in {KEPT_FOLDER}/{copy}",))
        sentence = f"{path} changed after the {record.event} was written"
        if same(found, target):
            sentence += " and was left unchanged"
        else:
            sentence += f": the {record.event} was removed and your other changes were kept"
        return _left(sentence, f"; the text from before the {record.event}", step, number)
    sentence = f"{path} changed on the lines of the {record.event} and was left unchanged, with both in it"
    journal.keep(f"new-{number}", step.new.data if step.new else b"")
    sentence += f"; the edited text is in {KEPT_FOLDER}/new-{number}"
    return replace(_left(sentence, ", the text from before", step, number), conflicts=(path,))


def _left(sentence: str, before: str, step: Step, number: int) -> OtherChanges:
    """What is left of a file; where there was one before, its text is named with the words `before`."""
    where = f"{before} is in {KEPT_FOLDER}/old-{number}" if step.old is not None else ""
    return OtherChanges(left=(step.path,), sentences=(sentence + where,))


def _is_staged(
    worktree: WorkTree, journal: Journal, record: Record, step: Step, found: Content | None
) -> bool:
    """Whether a hook has added to the commit what is new in the file."""
    index = journal.path(COMMITTED)
    if found is None or step.new is None or found.is_link or not index.exists():
        return False
    staged = staged_entries(worktree, [step.path], index).get(step.path)
    ours = next((planned.commit for planned in record.planned if planned.path == step.path), None)
    if staged is None or staged == ours:
        return False
    new = set(found.data.splitlines()) - set(step.new.data.splitlines())
    return bool(new) and new <= set(from_blob(worktree, step.path, staged).data.splitlines())


def _is_reformatted(found: Content | None, wrote: Content | None) -> bool:
    """Whether nothing but the layout differs, as after a formatter."""
    if found is None or wrote is None or found.is_link or wrote.is_link:
        return False
    return _LAYOUT.sub(b"", found.data) == _LAYOUT.sub(b"", wrote.data)


def recover(worktree: WorkTree) -> list[str]:
    """Run at the start of every command: what was done, in sentences for the user; mostly nothing.

    Without a crash it costs one look at a folder. A journal whose owner lives, as that of a commit whose hook
    this is, is left alone. Raises Busy when another git command holds the index lock that is needed, Refused
    for a journal of a newer version.
    """
    root = layout(worktree).journal
    if not root.is_dir():
        return []
    notes = []
    for journal in abandoned(root):
        try:
            with uninterrupted():
                notes.append(_recover(worktree, journal))
        finally:
            journal.close()
    return notes


def _recover(worktree: WorkTree, journal: Journal) -> str:
    record = load(journal.folder)
    if record is None:
        kept = kept_folder(worktree, journal)
        locks.release(worktree, journal)
        journal.retire(kept)
        return (
            f"cannot read the journal of an unfinished edit; its files are in {kept}: compare them with "
            "`git status` and `git diff` before you commit"
        )
    what = f"the {record.event} {record.id}"
    if record.state == DONE:
        archive_folder(worktree, journal, record)
        return f"{what} is complete"
    made = None
    if record.state == COMMITTING:
        remove_stale_ref_locks(worktree, record)
        made = _commit_of(worktree, record)
    if made is None and end_if_archived(worktree, journal, record):
        return f"{what} is complete"
    others: tuple[str, ...] = ()
    sentence = f"{what} was interrupted and has been rolled back"
    if made is not None:
        try:
            others = _complete_recovered(worktree, journal, record, made)
            stays = record.moves_to == (record.head or "")
            sentence = what + ("" if stays else f" was committed as {made[:12] or 'nothing'} and")
            sentence += " is complete now"
        except CommitWithdrawn as error:
            made, sentence = None, f"{what} has been rolled back: {error}"
    if made is None:
        home = folder_after(worktree, journal, record, done=False)
        others = roll_back(worktree, journal, record).remarks(home)
    return "; ".join((sentence, *others))


def _complete_recovered(worktree: WorkTree, journal: Journal, record: Record, commit: str) -> tuple[str, ...]:
    """What is said of the user's other files."""
    leave: set[str] = set()
    if not locks.is_ours(worktree, journal):
        locks.acquire(worktree, journal)
        leave = _changed_since(worktree, record)
    if record.moves_to is None and commit == head_commit(worktree):
        done = complete(worktree, journal, record, read_commit(worktree), leave=leave)
        return (*done.notes, *restored_notes(done.restored))
    others = restore_other_files(worktree, journal, record)
    home = folder_after(worktree, journal, record, done=True)
    update_user_index(worktree, journal, record, {}, leave)
    restore_pending_messages(worktree, journal)
    archive(worktree, journal, record)
    return others.remarks(home)


def _changed_since(worktree: WorkTree, record: Record) -> set[str]:
    """Paths that somebody has staged anew after the crash, which a removed lock makes possible."""
    now = staged_entries(worktree, [planned.path for planned in record.planned])
    return {one.path for one in record.planned if now.get(one.path) not in (one.staged_here, one.stage)}


def _commit_of(worktree: WorkTree, record: Record) -> str | None:
    """The commit of the transaction if it came about: HEAD, or below what was committed since."""
    if record.moves_to is not None:
        return record.moves_to if has_moved(worktree, record) else None
    made = find_commit(worktree, record)
    return None if made is None else made.oid
