"""Complete a transaction, roll it back or, after a crash, recover by doing one of the two.

The journal of a finished edit becomes a folder in `edits/`, for undo. Bytes that could not be restored go to a folder
in `kept/`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from repoagent.git.file_writer import FilesChanged, FileStep, revert_step, write_file
from repoagent.git.files import Content, read_content, same_content
from repoagent.git.index import staged_entries
from repoagent.git.merge import Conflict, merge_content, merge_entry
from repoagent.git.objects import Commit, from_blob, head_commit, read_commit, switch_back, to_blob
from repoagent.git.process import defer_signals
from repoagent.git.transaction import hook_changes, other_files
from repoagent.git.transaction.commit import committed_since, find_commit, has_moved
from repoagent.git.transaction.journal import (
    COMMITTING,
    DONE,
    LOCK_FILE,
    LOCKED,
    EditJournal,
    JournalRecord,
    load_record,
    to_dict,
)
from repoagent.git.transaction.results import KEPT_FOLDER, CommitResult, OtherChanges, restored_notes
from repoagent.git.worktree import WorkTree, current_branch, layout_of
from repoagent.storage import json_files
from repoagent.storage.folders import SystemFailed
from repoagent.storage.journal import abandoned_journals, remove_folder

_ARCHIVED = 100  # finished edits, for undo, and as many folders in `kept/`
_TRIES = 3  # if the file is saved while the edit is being removed from it
_LAYOUT = re.compile(rb"[\s'\"`,;()\\]+")  # characters that formatters change


def edit_folder(worktree: WorkTree, edit_id: str) -> Path:
    """The folder with the bytes of a finished edit, for undo."""
    return layout_of(worktree).private / "edits" / edit_id


def folder_after(journal: EditJournal, *, done: bool) -> Path:
    """The folder that the journal becomes after the transaction, if it has anything to keep.

    This is the edit's folder if an edit was completed (`done`), otherwise a new one in `kept/`.
    """
    if done and journal.record.event == "edit":
        return edit_folder(journal.worktree, journal.record.id)
    folder = layout_of(journal.worktree).private / "kept" / journal.name
    number = 1
    while folder.exists():
        number += 1
        folder = folder.with_name(f"{journal.name}-{number}")
    return folder


def archive_edit(journal: EditJournal, **values: Any) -> None:
    """Durably log the edit, with these `values` in its record, and end the journal.

    If the journal cannot be ended now, the next command ends it.
    """
    record = replace(journal.record, **values)
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
    json_files.append_record(layout_of(journal.worktree).edits, line)
    _end(journal, record)


def end_if_archived(journal: EditJournal) -> bool:
    """End the journal if its edit was logged before the process failed; return whether it was logged."""
    record, log = journal.record, layout_of(journal.worktree).edits
    lines = [line for line in json_files.read_records(log) if line.get("id") == record.id]
    if not lines or lines[-1].get("event") != record.event:
        return False
    commit, commits = lines[-1].get("commit"), not lines[-1].get("no_commit")
    _end(journal, replace(record, commit=commit, commits=commits))
    return True


def _end(journal: EditJournal, record: JournalRecord) -> None:
    if record.in_place:  # undo restores the content before the change from that after it
        worktree, steps = journal.worktree, {step.path: step for step in record.steps}
        planned = []
        for path in record.planned:
            if path.staged != path.head and not path.renamed:  # without parts that the user has staged before
                step, after = steps.get(path.path), path.work
                if step is not None and not same_content(step.new, step.done):  # other work is on top
                    after = (
                        None if step.done is None else to_blob(worktree, step.path, step.done, path.staged)
                    )
                before = merge_entry(worktree, path.stage, after, path.base)
                path = path if isinstance(before, Conflict) else replace(path, staged=before)
            planned.append(path)
        done = tuple(replace(step, old=step.was, new=step.done, was=None, done=None) for step in record.steps)
        record = replace(record, steps=done, planned=tuple(planned), in_place=False)
        journal.store_contents(done)
    # the journal itself keeps its record: the transaction is ended again if this fails
    journal.save(to_dict(replace(record, saved=(), uncommitted=(), state=DONE)))
    with suppress(OSError, SystemFailed):
        _archive_folder(journal)


def _archive_folder(journal: EditJournal) -> None:
    """End the journal of a logged transaction. It stays for an edit, or with bytes of the user."""
    if journal.record.event != "edit" and not any(journal.folder.glob("found-*")):
        journal.retire()
        return
    for index in (other_files.NEXT, other_files.COMMITTED):
        for name in (index, f"{index}.new", f"{index}.lock"):
            journal.path(name).unlink(missing_ok=True)
    for path in (journal.path(LOCK_FILE), *journal.folder.glob("saved-*")):
        path.unlink(missing_ok=True)
    _retire_to(journal, folder_after(journal, done=True))


def _retire_to(journal: EditJournal, folder: Path) -> None:
    """End the journal, which becomes `folder`, and remove the oldest such folders."""
    journal.retire(folder)
    folders = (path for path in folder.parent.iterdir() if path.is_dir())
    for old in sorted(folders, key=lambda path: path.stat().st_mtime)[:-_ARCHIVED]:
        remove_folder(old)


def complete_transaction(
    journal: EditJournal, made: Commit, *, key: str | None = None, leave: Collection[str] = ()
) -> CommitResult:
    """Complete the transaction after the commit `made`.

    Removes other work that hooks added, updates the user's files and index, releases the lock, and archives the
    journal. `key` signs a commit that has to be made again; the index entries of `leave` are not changed. After Busy,
    GitError or OSError, call this again; after CommitWithdrawn, roll back.
    """
    record = journal.record
    verdict = hook_changes.judge_commit(journal, made)
    since = committed_since(journal, made, verdict.stage)
    commit, notes = hook_changes.remove_other_work(journal, made, verdict, key)
    others = other_files.restore_other_files(journal)
    notes = [*others.notes(folder_after(journal, done=True)), *notes]
    if since:
        notes.append(f"a hook made another commit on top, with changes to {', '.join(sorted(since))}")
    other_files.update_user_index(journal, {**verdict.stage, **since}, leave)
    other_files.restore_pending_messages(journal)
    steps = hook_changes.steps_after_hooks(journal, made, verdict)
    if steps != record.steps:
        journal.store_contents(steps)
    branch = current_branch(journal.worktree)  # a hook may have switched to it
    archive_edit(journal, commit=commit, steps=steps, branch=branch, new_branch=None)
    folded, taken_out = tuple(verdict.folded), tuple(verdict.taken_out) if commit != made.oid else ()
    return CommitResult(commit, made.parent, branch, folded, taken_out, others.restored, tuple(notes))


def roll_back(journal: EditJournal) -> OtherChanges:
    """Restore the state from before the transaction, and end the journal.

    If a file was saved since, only the edit is removed from it; if that fails, the file stays unchanged. The result
    reports both cases.
    """
    worktree, record = journal.worktree, journal.record
    others = OtherChanges()
    for number, step in reversed(list(enumerate(other_files.steps_to_revert(journal)))):
        if not revert_step(worktree.top, step):
            others += _remove_edit(journal, number, step)
    for created in record.folders:
        with suppress(OSError):  # not empty
            (worktree.top / created).rmdir()
    others += other_files.restore_other_files(journal)
    other_files.restore_pending_messages(journal)
    if record.new_branch is not None:
        switch_back(worktree, record.new_branch, record.head, record.branch, record.id)
    if record.commits:
        journal.unlock_index()
    if others.left or any(journal.folder.glob("found-*")):
        _retire_to(journal, folder_after(journal, done=False))
    else:
        journal.retire()
    return others


def _remove_edit(journal: EditJournal, number: int, step: FileStep) -> OtherChanges:
    """Remove the edit from a file that has changed since, by a three-way merge as in `undo`."""
    worktree, path, event = journal.worktree, step.path, journal.record.event
    before = f" is in {KEPT_FOLDER}/old-{number}" if step.old is not None else ""
    for _ in range(_TRIES):
        current = read_content(worktree.top, path)
        is_hooks = (
            journal.record.state == COMMITTING
            and _is_reformatted(current, step.new)
            and other_files.has_hooks(worktree)
        )
        target: Content | Conflict | None = step.old
        if not is_hooks:  # if the edit had deleted the file, nothing of the edit is in it
            target = current if step.new is None else merge_content(worktree, current, step.new, step.old)
        if isinstance(target, Conflict):
            if not _is_staged(journal, step, current):
                break
            is_hooks, target = True, step.old
        try:
            write_file(worktree.top, path, current, target, step.temporary, permissions=step.permissions)
        except FilesChanged:  # it has just been saved
            continue
        if is_hooks and current is not None:
            copy = other_files.keep_copy(journal, "found-own", current)
            return OtherChanges(sentences=(f"the hook's version of {path} is in {KEPT_FOLDER}/{copy}",))
        sentence = f"{path} changed after the {event} was written"
        if same_content(current, target):
            sentence += ", and its new content was kept"
        else:
            sentence += f": the {event} was removed and your other changes were kept"
        sentence += before and f"; its text before the {event}{before}"
        return OtherChanges(left=(path,), sentences=(sentence,))
    journal.keep(f"new-{number}", step.new.data if step.new else b"")
    sentence = (
        f"{path} changed on the same lines as the {event}, and both changes were kept; the edited text is in "
        f"{KEPT_FOLDER}/new-{number}{before and f', the earlier text{before}'}"
    )
    return OtherChanges(left=(path,), conflicts=(path,), sentences=(sentence,))


def _is_staged(journal: EditJournal, step: FileStep, current: Content | None) -> bool:
    """Whether a hook has staged the new lines of the file."""
    index = journal.path(other_files.COMMITTED)
    if current is None or step.new is None or current.is_link or not index.exists():
        return False
    staged = staged_entries(journal.worktree, [step.path], index).get(step.path)
    ours = next((planned.commit for planned in journal.record.planned if planned.path == step.path), None)
    if staged is None or staged == ours:
        return False
    new = set(current.data.splitlines()) - set(step.new.data.splitlines())
    return bool(new) and new <= set(from_blob(journal.worktree, step.path, staged).data.splitlines())


def _is_reformatted(current: Content | None, wrote: Content | None) -> bool:
    if current is None or wrote is None or current.is_link or wrote.is_link:
        return False
    return _LAYOUT.sub(b"", current.data) == _LAYOUT.sub(b"", wrote.data)


def recover_transactions(worktree: WorkTree) -> list[str]:
    """Complete or roll back interrupted transactions; return sentences for the user.

    Runs at the start of every command. A journal whose owner is still running is skipped. Raises Busy if git holds the
    index lock, Refused for a journal from a newer version.
    """
    root = layout_of(worktree).journal
    if not root.is_dir():
        return []
    notes = []
    for opened in abandoned_journals(root):
        try:
            with defer_signals():
                record = load_record(opened.folder)
                unreadable = JournalRecord(opened.name, "edit", LOCKED, commits=True)
                journal = EditJournal(opened, worktree, record or unreadable)
                if record is not None:
                    notes.append("; ".join(_recover(journal)))
                    continue
                folder = folder_after(journal, done=False)
                journal.unlock_index()
                journal.retire(folder)
                notes.append(
                    f"cannot read the journal of an unfinished edit; moved it to {folder}: before you commit, "
                    "check `git status` and `git diff` against its files"
                )
        finally:
            opened.close()
    return notes


def _recover(journal: EditJournal) -> list[str]:
    worktree, record = journal.worktree, journal.record
    name = f"{record.event} {record.id}"
    if record.state == DONE:
        _archive_folder(journal)
        return [f"{name} is complete"]
    made = None
    if record.state == COMMITTING:
        journal.remove_stale_ref_locks()
        # the commit of the transaction, if there is one: HEAD or an ancestor
        if record.moves_to is not None:
            made = record.moves_to if has_moved(journal) else None
        else:
            commit = find_commit(journal)
            made = None if commit is None else commit.oid
    if made is None:
        if end_if_archived(journal):
            return [f"{name} is complete"]
        folder = folder_after(journal, done=False)
        return [f"{name} was interrupted and has been rolled back", *roll_back(journal).remarks(folder)]
    leave: set[str] = set()
    if not journal.has_lock():
        journal.lock_index()
        # entries that were staged after the crash, if the lock was removed
        staged = staged_entries(worktree, [planned.path for planned in record.planned])
        leave = {p.path for p in record.planned if staged.get(p.path) not in (p.staged_here, p.stage)}
    if record.moves_to is None and made == head_commit(worktree):
        try:
            result = complete_transaction(journal, read_commit(worktree), leave=leave)
        except hook_changes.CommitWithdrawn as error:
            folder = folder_after(journal, done=False)
            return [f"{name} has been rolled back: {error}", *roll_back(journal).remarks(folder)]
        remarks = (*result.notes, *restored_notes(result.restored))
    else:
        others = other_files.restore_other_files(journal)
        remarks = others.remarks(folder_after(journal, done=True))
        other_files.update_user_index(journal, leave=leave)
        other_files.restore_pending_messages(journal)
        archive_edit(journal)
    committed = f" was committed as {made[:12]} and" if made else ""
    return [f"{name}{'' if record.moves_to == (record.head or '') else committed} is now complete", *remarks]
