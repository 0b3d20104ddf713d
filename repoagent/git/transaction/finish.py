"""Complete a transaction, roll it back, or, after a crash, recover by one of the two.

The journal of a finished edit becomes a folder of `edits/` for undo. Bytes that could not be restored become a folder
of `kept/`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
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
from repoagent.git.transaction import hook_changes, locks, other_files, results
from repoagent.git.transaction.commit import committed_since, find_commit, has_moved
from repoagent.git.transaction.journal import COMMITTING, DONE, PlannedPath, Record, load, save, store_steps
from repoagent.git.worktree import WorkTree, layout
from repoagent.storage import json_files
from repoagent.storage.folders import SystemFailed
from repoagent.storage.journal import Journal, abandoned, remove_folder

_ARCHIVED = 100  # finished edits, for undo, and as many folders in `kept/`
_TRIES = 3  # if the file is saved while the edit is being removed from it
_LAYOUT = re.compile(rb"[\s'\"`,;()\\]+")  # characters that formatters change


def edit_folder(worktree: WorkTree, edit_id: str) -> Path:
    """The folder with the bytes of a finished edit, for undo."""
    return layout(worktree).private / "edits" / edit_id


def folder_after(worktree: WorkTree, journal: Journal, record: Record | None, *, done: bool) -> Path:
    """The folder that the journal becomes after the transaction, completed (`done`) or not, if it has something to
    keep: that of the edit, or a new one in `kept/` for bytes that could not be restored."""
    if record is not None and done and record.event == "edit":
        return edit_folder(worktree, record.id)
    folder = layout(worktree).private / "kept" / journal.name
    number = 1
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{journal.name}-{number}")
    return folder


def archive(worktree: WorkTree, journal: Journal, record: Record) -> None:
    """Log the edit durably, and end the journal. If the latter fails, the next command does it."""
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
        "moved": record.moves_to not in (None, record.head or ""),
    }
    json_files.append_record(layout(worktree).edits, line)
    _end(worktree, journal, record)


def end_if_archived(worktree: WorkTree, journal: Journal, record: Record) -> bool:
    """Whether the edit was logged before a kill or a failure; if so, end its journal."""
    lines = [line for line in json_files.read_records(layout(worktree).edits) if line.get("id") == record.id]
    if not lines or lines[-1].get("event") != record.event:
        return False
    commit, commits = lines[-1].get("commit"), not lines[-1].get("no_commit")
    _end(worktree, journal, replace(record, commit=commit, commits=commits))
    return True


def _end(worktree: WorkTree, journal: Journal, record: Record) -> None:
    if record.in_place:  # undo restores the content before the change from that after it
        steps = {step.path: step for step in record.steps}
        planned = tuple(
            replace(path, staged=_staged_without(worktree, path, steps.get(path.path)))
            for path in record.planned
        )
        done = tuple(replace(step, old=step.was, new=step.done, was=None, done=None) for step in record.steps)
        record = replace(record, steps=done, planned=planned, in_place=False)
        store_steps(journal, record)
    save(journal, replace(record, saved=(), uncommitted=(), state=DONE))
    with suppress(OSError, SystemFailed):
        _archive_folder(worktree, journal, record)


def _staged_without(worktree: WorkTree, planned: PlannedPath, step: Step | None) -> Entry | None:
    """The staged entry without the change, some of which the user may have staged before the commit. Undo restores
    it."""
    if planned.staged == planned.head or planned.renamed:
        return planned.staged
    after = planned.work
    if step is not None and not same(step.new, step.done):  # there is other work on top of the change
        after = None if step.done is None else to_blob(worktree, step.path, step.done, planned.staged)
    before = project(worktree, planned.stage, after, planned.base)
    return planned.staged if isinstance(before, Conflict) else before


def _archive_folder(worktree: WorkTree, journal: Journal, record: Record) -> None:
    """End the journal of a logged transaction: that of an edit is kept for undo and redo, others are removed unless
    they contain the user's bytes."""
    if record.event != "edit" and not any(journal.folder.glob("found-*")):
        journal.retire()
        return
    indexes = [
        index + suffix
        for index in (other_files.NEXT, other_files.COMMITTED)
        for suffix in ("", ".new", ".lock")
    ]
    saved = [path.name for path in journal.folder.glob("saved-*")]
    for name in (locks.LOCK_FILE, *indexes, *saved):
        journal.path(name).unlink(missing_ok=True)
    _retire_to(journal, folder_after(worktree, journal, record, done=True))


def _retire_to(journal: Journal, folder: Path) -> None:
    """End the journal; it becomes `folder`. Remove the oldest such folders."""
    journal.retire(folder)
    folders = (path for path in folder.parent.iterdir() if path.is_dir())
    for old in sorted(folders, key=lambda path: path.stat().st_mtime)[:-_ARCHIVED]:
        remove_folder(old)


def complete(
    worktree: WorkTree,
    journal: Journal,
    record: Record,
    made: Commit,
    *,
    key: str | None = None,
    leave: Collection[str] = (),
) -> results.CommitResult:
    """Complete the transaction after the commit `made`: remove other work that hooks added to it, update the user's
    files and index, release the lock, and turn the journal into the record of the edit.

    `key` signs a commit that has to be made again. The index entries `leave` are not changed. Raises Busy if another
    git holds the index, GitError and OSError; then call it again. Raises CommitWithdrawn if the commit was withdrawn
    and the rest must be rolled back.
    """
    verdict = hook_changes.judge_commit(worktree, record, made)
    stage = {**{planned.path: planned.stage for planned in record.planned}, **verdict.stage}
    since = committed_since(worktree, journal.path(other_files.COMMITTED), made, stage)
    commit, notes = hook_changes.remove_other_work(worktree, journal, record, made, verdict, key=key)
    if commit == made.oid:
        stage.update(hook_changes.uncorrected_entries(worktree, made, verdict, stage))
    stage.update(since)
    others = other_files.restore_other_files(worktree, journal, record)
    notes = [*others.notes(folder_after(worktree, journal, record, done=True)), *notes]
    if since:
        notes.append(f"a hook made another commit on top of it: {', '.join(sorted(since))}")
    other_files.update_user_index(worktree, journal, record, stage, leave)
    other_files.restore_pending_messages(worktree, journal)
    done = replace(record, commit=commit, steps=_steps_after_hooks(worktree, record, made, verdict))
    if done.steps != record.steps:
        store_steps(journal, done)
    archive(worktree, journal, done)
    branch = record.new_branch or record.branch
    folded, taken_out = tuple(verdict.folded), tuple(verdict.taken_out) if commit != made.oid else ()
    return results.CommitResult(commit, made.parent, branch, folded, taken_out, others.restored, tuple(notes))


def _steps_after_hooks(
    worktree: WorkTree, record: Record, made: Commit, verdict: hook_changes.HookVerdict
) -> tuple[Step, ...]:
    """The steps with what hooks changed and added, for undo. A file may contain a save by the user; the commit has what
    the hook made of it."""

    def content(path: str, entry: Entry | None) -> Content | None:
        return None if entry is None else from_blob(worktree, path, entry)

    plans = {planned.path: planned for planned in record.planned}
    steps = {step.path: step for step in record.steps}
    for path in verdict.folded:
        step = steps.get(path)
        if step is not None and plans[path].has_other_work and not record.in_place:
            steps[path] = replace(step, new=look(worktree.top, path))
            continue
        committed = content(path, verdict.corrections.get(path, made.changed.get(path)))
        if step is not None and record.in_place:
            before = content(path, plans[path].commit)
            steps[path] = results.step_after_hook(worktree, step, look(worktree.top, path), before, committed)
        elif step is not None:
            steps[path] = replace(step, new=committed)
        else:
            old, temporary = content(path, made.was[path]), f"{record.id}-{len(steps)}"
            steps[path] = Step(path, old, committed, temporary)
            if record.in_place:
                current = look(worktree.top, path)
                steps[path] = Step(path, current, current, temporary, was=old, done=committed)
    return tuple(steps.values())


def roll_back(worktree: WorkTree, journal: Journal, record: Record) -> results.OtherChanges:
    """Restore the state before the transaction, and end the journal.

    If a file of the edit was saved since, only the edit is removed from it; if that fails, the file stays unchanged.
    Both are reported in the result. If bytes are left that the user may want, the folder of the journal is moved to
    `kept`.
    """
    others = results.OtherChanges()
    folder = folder_after(worktree, journal, record, done=False)
    # revert what the steps wrote themselves, not the content after hooks
    steps = tuple(
        step if step.wrote is None else replace(step, new=step.wrote, wrote=None) for step in record.steps
    )
    written = other_files.with_lost_files(worktree, replace(record, steps=steps))
    for number, step in reversed(list(enumerate(written.steps))):
        if not revert_step(worktree.top, step):
            others += _remove_edit(worktree, journal, record, number, step)
    for created in record.folders:
        with suppress(OSError):  # not empty
            (worktree.top / created).rmdir()
    others += other_files.restore_other_files(worktree, journal, record)
    other_files.restore_pending_messages(worktree, journal)
    if record.new_branch is not None:
        switch_back(worktree, record.new_branch, record.head, record.branch, record.id)
    if record.commits:
        locks.release(worktree, journal)
    if others.left or any(journal.folder.glob("found-*")):
        _retire_to(journal, folder)
    else:
        journal.retire()
    return others


def _remove_edit(
    worktree: WorkTree, journal: Journal, record: Record, number: int, step: Step
) -> results.OtherChanges:
    """Remove the edit from a file that has changed since, by a three-way merge as in `undo`."""
    path, event = step.path, record.event
    before = f" is in {results.KEPT_FOLDER}/old-{number}"
    for _ in range(_TRIES):
        current = look(worktree.top, path)
        by_hook = (
            record.state == COMMITTING
            and _is_reformatted(current, step.new)
            and other_files.has_hooks(worktree)
        )
        if by_hook:
            target: Content | Conflict | None = step.old
        elif step.new is None:  # the edit had deleted it, so nothing of the edit is in it
            target = current
        else:
            target = carry(worktree, current, step.new, step.old)
        if isinstance(target, Conflict):
            if not _is_staged(worktree, journal, record, step, current):
                break
            by_hook, target = True, step.old
        try:
            write_file(worktree.top, path, current, target, step.temporary, permissions=step.permissions)
        except Moved:  # it has just been saved
            continue
        if by_hook and current is not None:
            copy = other_files.keep_copy(journal, "found-own", current)
            return results.OtherChanges(
                sentences=(f"the hook's version of {path} is in {results.KEPT_FOLDER}/{copy}",)
            )
        sentence = f"{path} changed after the {event} was written"
        if same(current, target):
            sentence += " and was left unchanged"
        else:
            sentence += f": the {event} was removed and your other changes were kept"
        sentence += f"; the text from before the {event}{before}" if step.old is not None else ""
        return results.OtherChanges(left=(path,), sentences=(sentence,))
    journal.keep(f"new-{number}", step.new.data if step.new else b"")
    sentence = f"{path} changed on the lines of the {event} and was left unchanged, with both in it"
    sentence += f"; the edited text is in {results.KEPT_FOLDER}/new-{number}"
    sentence += f", the text from before{before}" if step.old is not None else ""
    return results.OtherChanges(left=(path,), conflicts=(path,), sentences=(sentence,))


def _is_staged(
    worktree: WorkTree, journal: Journal, record: Record, step: Step, current: Content | None
) -> bool:
    """Whether a hook has staged the new lines of the file for the commit."""
    index = journal.path(other_files.COMMITTED)
    if current is None or step.new is None or current.is_link or not index.exists():
        return False
    staged = staged_entries(worktree, [step.path], index).get(step.path)
    ours = next((planned.commit for planned in record.planned if planned.path == step.path), None)
    if staged is None or staged == ours:
        return False
    new = set(current.data.splitlines()) - set(step.new.data.splitlines())
    return bool(new) and new <= set(from_blob(worktree, step.path, staged).data.splitlines())


def _is_reformatted(current: Content | None, wrote: Content | None) -> bool:
    """Whether only the layout differs, as after a formatter."""
    if current is None or wrote is None or current.is_link or wrote.is_link:
        return False
    return _LAYOUT.sub(b"", current.data) == _LAYOUT.sub(b"", wrote.data)


def recover(worktree: WorkTree) -> list[str]:
    """Complete or roll back interrupted transactions; return sentences for the user. Called at the start of every
    command.

    Without a crash it lists one folder. A journal whose owner is running is skipped, as in a hook of its commit. Raises
    Busy if another git command holds the index lock, Refused for a journal of a newer version.
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
        folder = folder_after(worktree, journal, None, done=False)
        locks.release(worktree, journal)
        journal.retire(folder)
        return (
            f"cannot read the journal of an unfinished edit; its files are in {folder}: compare them with "
            "`git status` and `git diff` before you commit"
        )
    name = f"the {record.event} {record.id}"
    if record.state == DONE:
        _archive_folder(worktree, journal, record)
        return f"{name} is complete"
    made = None
    if record.state == COMMITTING:
        locks.remove_stale_ref_locks(worktree, record)
        # the commit of the transaction, if there is one: HEAD or an ancestor
        if record.moves_to is not None:
            made = record.moves_to if has_moved(worktree, record) else None
        else:
            commit = find_commit(worktree, record)
            made = None if commit is None else commit.oid
    if made is None and end_if_archived(worktree, journal, record):
        return f"{name} is complete"
    sentence = f"{name} was interrupted and has been rolled back"
    if made is not None:
        try:
            others = _complete_recovered(worktree, journal, record, made)
        except hook_changes.CommitWithdrawn as error:
            sentence = f"{name} has been rolled back: {error}"
        else:
            if record.moves_to == (record.head or ""):
                return "; ".join((f"{name} is complete now", *others))
            return "; ".join(
                (f"{name} was committed as {made[:12] or 'nothing'} and is complete now", *others)
            )
    folder = folder_after(worktree, journal, record, done=False)
    return "; ".join((sentence, *roll_back(worktree, journal, record).remarks(folder)))


def _complete_recovered(worktree: WorkTree, journal: Journal, record: Record, commit: str) -> tuple[str, ...]:
    """Complete the transaction with its commit; return sentences on the user's other files."""
    leave: set[str] = set()
    if not locks.is_ours(worktree, journal):
        locks.acquire(worktree, journal)
        # entries that were staged after the crash, if the lock was removed
        staged = staged_entries(worktree, [planned.path for planned in record.planned])
        leave = {p.path for p in record.planned if staged.get(p.path) not in (p.staged_here, p.stage)}
    if record.moves_to is None and commit == head_commit(worktree):
        result = complete(worktree, journal, record, read_commit(worktree), leave=leave)
        return (*result.notes, *results.restored_notes(result.restored))
    others = other_files.restore_other_files(worktree, journal, record)
    folder = folder_after(worktree, journal, record, done=True)
    other_files.update_user_index(worktree, journal, record, {}, leave)
    other_files.restore_pending_messages(worktree, journal)
    archive(worktree, journal, record)
    return others.remarks(folder)
