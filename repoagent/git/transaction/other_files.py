"""The user's uncommitted work, which is copied before hooks run and restored if they lose it.

Hooks that stash files or check them out may fail to restore them. The file is then missing or has HEAD's content; after
`git stash --keep-index` it has the committed content. Any other content is a newer save and stays. The index, MERGE_MSG
and AUTO_MERGE belong to the user, too.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from repoagent.errors import Refused
from repoagent.git.file_writer import FilesChanged, FileStep, write_file
from repoagent.git.files import Content, read_content, same_content
from repoagent.git.index import Entry, copy_index, index_path, put_entries, refresh_index
from repoagent.git.merge import Conflict, merge
from repoagent.git.objects import from_blob
from repoagent.git.process import git, git_output
from repoagent.git.transaction.journal import COMMITTING, EditJournal, JournalRecord, PlannedPath, SavedFile
from repoagent.git.transaction.results import KEPT_FOLDER, OtherChanges
from repoagent.git.worktree import WorkTree
from repoagent.storage.atomic import write_whole
from repoagent.storage.journal import read_stored

NEXT = "next"  # in the folder of the journal: the index to be
COMMITTED = "index"  # and the one that git commits
# of all files; larger ones are not copied, so changes by hooks are not reverted
_MAX_BYTES = 256 * 1024 * 1024
_TRIES = 3  # if the file is saved while it is being restored
_CHANGED = "changed while git was committing, and its new content was kept"
_COMMIT_HOOKS = (
    "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "post-index-change",
    "reference-transaction",
)  # fmt: skip
# `git cherry-pick -n`, `git revert -n` and a resolved `git stash pop` leave them
_PENDING_MESSAGES = ("MERGE_MSG", "AUTO_MERGE")


def has_hooks(worktree: WorkTree) -> bool:
    path = git(worktree.top, "rev-parse", "--git-path", "hooks")
    folder = worktree.top / os.fsdecode(path.removesuffix(b"\n"))
    if any((folder / name).is_file() and os.access(folder / name, os.X_OK) for name in _COMMIT_HOOKS):
        return True
    return bool(git(worktree.top, "config", "--get-regexp", r"^hook\..*\.event$", ok=(0, 1)))  # git 2.54


def snapshot_files(top: Path, edit_id: str, paths: Sequence[str]) -> tuple[SavedFile, ...]:
    """The current content of `paths`, up to a total size, to be restored after hooks."""
    saved = []
    budget = _MAX_BYTES
    for number, path in enumerate(paths):
        size = 0
        try:
            status = (top / path).lstat()
        except OSError:
            pass
        else:
            if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
                continue  # a folder in place of a deleted file
            size = status.st_size
        if size <= budget:
            budget -= size
            saved.append(SavedFile(path, read_content(top, path), f".repoagent-{edit_id}-other-{number}"))
    return tuple(saved)


def restore_other_files(journal: EditJournal) -> OtherChanges:
    """Restore files in which hooks lost the user's work.

    Newer content stays; the earlier content is then saved in the journal's folder as `found-before-N`.
    """
    worktree, record = journal.worktree, journal.record
    restored, left, sentences = [], [], []
    for saved in record.saved:
        for _ in range(_TRIES):
            current = read_content(worktree.top, saved.path)
            if current == saved.content or saved.content is None:
                break
            if current is not None and not (
                has_hooks(worktree) and _is_as_in_head(worktree, record, saved, current)
            ):
                break
            try:
                write_file(worktree.top, saved.path, current, saved.content, saved.temporary)
            except FilesChanged:  # it has just been saved
                continue
            current = saved.content
            restored.append(saved.path)
            break
        if current == saved.content:
            continue
        left.append(saved.path)
        if saved.content is None:
            sentences.append(f"{saved.path}, which you had deleted, exists again and was kept")
            continue
        if current is None or current.data != saved.content.data:
            sentences.append(_keep_earlier(journal, saved.path, "found-before", saved.content))
        else:
            sentences.append(f"{saved.path} {_CHANGED}")
    return OtherChanges(tuple(restored), tuple(left), sentences=tuple(sentences))


def _is_as_in_head(worktree: WorkTree, record: JournalRecord, saved: SavedFile, current: Content) -> bool:
    """Whether the file is as in a checkout of the commit at the start."""
    arguments = ("ls-tree", "-z", "--full-tree", record.head or "HEAD", "--", saved.path)
    listing = git_output(worktree.top, *arguments, ok=(0, 128))
    fields = os.fsdecode(listing.stdout).partition("\t")[0].split(" ")
    if listing.returncode or len(fields) != 3 or fields[1] != "blob":
        return False
    head = from_blob(worktree, saved.path, Entry(fields[0], fields[2]))
    # if the user has changed only the mode, a checkout reverts it
    return same_content(current, head) and (
        not same_content(current, saved.content) or current.mode == head.mode
    )


def keep_copy(journal: EditJournal, name: str, content: Content) -> str:
    """Save the bytes in the journal's folder unless they are already there; return the file's name."""
    number = 0
    while (file := journal.path(f"{name}-{number}")).exists():
        if read_stored(journal.folder, file.name) == content.data:
            return file.name
        number += 1
    journal.keep(file.name, content.data)
    return file.name


def _keep_earlier(journal: EditJournal, path: str, name: str, content: Content) -> str:
    """Save the earlier content of a file that stays as it is; return a sentence about that."""
    return f"{path} {_CHANGED}; its earlier content is in {KEPT_FOLDER}/{keep_copy(journal, name, content)}"


def save_pending_messages(journal: EditJournal) -> None:
    for name in _PENDING_MESSAGES:
        file = journal.worktree.git_dir / name
        if file.is_file():
            journal.keep(f"waiting-{name}", file.read_bytes())


def restore_pending_messages(journal: EditJournal) -> None:
    """Restore MERGE_MSG and AUTO_MERGE if they have disappeared, and remove their copies from the journal."""
    for name in _PENDING_MESSAGES:
        copy = journal.path(f"waiting-{name}")
        if not copy.exists():
            continue
        file = journal.worktree.git_dir / name
        if not file.exists():
            write_whole(file, read_stored(journal.folder, copy.name), private=False)
        copy.unlink()


def restore_mixed_files(journal: EditJournal, written: Mapping[str, Content | None]) -> OtherChanges:
    """Restore the user's work that hooks lost in the edit's files.

    The replaced content is saved in the journal's folder as `found-own-N`, and so is lost work that cannot be restored.
    `written` has the content of each file when hooks started. Content that differs from the step's was saved by another
    program, and stays.
    """
    worktree = journal.worktree
    restored, sentences = [], []
    for step, planned in _mixed(journal.record):
        if step.new is None or not same_content(written[step.path], step.new):
            continue
        try:
            current = read_content(worktree.top, step.path)
        except Refused:  # a folder or a special file
            sentences.append(_keep_earlier(journal, step.path, "found-own", step.new))
            continue
        if same_content(current, step.new):
            continue
        whole = step.new
        if current is not None:
            if not has_hooks(worktree):
                continue
            base = _checked_out(worktree, planned)
            other_lines = set(step.new.data.splitlines()) - set(base.data.splitlines() if base else ())
            if not other_lines.isdisjoint(
                current.data.splitlines()
            ):  # some are still there: no hook removed them
                continue
            merged: bytes | Conflict = Conflict()
            if base is not None and not current.is_link and not step.new.is_link:
                merged = merge(worktree, current.data, base.data, step.new.data, exact=True)
            if isinstance(merged, Conflict):
                sentences.append(_keep_earlier(journal, step.path, "found-own", step.new))
                continue
            whole = replace(current, data=merged)
            if same_content(current, whole):
                continue
            keep_copy(journal, "found-own", current)
        try:
            write_file(worktree.top, step.path, current, whole, step.temporary)
        except FilesChanged:  # it has just been saved
            continue
        restored.append(step.path)
    return OtherChanges(tuple(restored), sentences=tuple(sentences))


def steps_to_revert(journal: EditJournal) -> list[FileStep]:
    """The steps, with the content that they wrote themselves instead of the content after hooks.

    If hooks were killed between a stash and its pop, a file may be missing or have the committed content. The step then
    reverts that state.
    """
    record, top = journal.record, journal.worktree.top
    written = [
        step if step.wrote is None else replace(step, new=step.wrote, wrote=None) for step in record.steps
    ]
    if record.state != COMMITTING:
        return written
    mixed = {step.path: planned for step, planned in _mixed(replace(record, steps=tuple(written)))}
    steps = []
    for step in written:
        current, planned = read_content(top, step.path), mixed.get(step.path)
        lost = current is None or (planned and same_content(current, _checked_out(journal.worktree, planned)))
        steps.append(replace(step, new=current) if lost else step)
    return steps


def _mixed(record: JournalRecord) -> Iterator[tuple[FileStep, PlannedPath]]:
    """The files that contain more than the commit."""
    plans = {planned.path: planned for planned in record.planned}
    for step in record.steps:
        planned = plans.get(step.path)
        if planned and planned.has_other_work and planned.commit != planned.work and step.new is not None:
            yield step, planned


def _checked_out(worktree: WorkTree, planned: PlannedPath) -> Content | None:
    """What a checkout of the commit writes."""
    return None if planned.commit is None else from_blob(worktree, planned.path, planned.commit)


def copy_user_index(worktree: WorkTree, file: Path) -> None:
    """Copy the index to `file` in a journal's folder. Any lock there was left by a killed git, and is removed."""
    file.with_name(f"{file.name}.lock").unlink(missing_ok=True)
    copy_index(worktree, file)


def update_user_index(
    journal: EditJournal, other: Mapping[str, Entry | None] | None = None, leave: Collection[str] = ()
) -> None:
    """Write the entries of the change and the `other` entries to the user's index, then release the lock.

    The paths in `leave` are not written. Raises Busy if another program holds the lock; recovery completes the update
    later.
    """
    worktree, record = journal.worktree, journal.record
    if not journal.has_lock():
        journal.lock_index()
    file = journal.path(NEXT)
    copy_user_index(worktree, file)
    entries = {planned.path: planned.stage for planned in record.planned} | dict(other or {})
    entries = {path: entry for path, entry in entries.items() if path not in leave}
    put_entries(worktree, file, entries, {p.path: p.bits for p in record.planned if p.bits})
    present = [path for path, entry in entries.items() if entry and (worktree.top / path).exists()]
    refresh_index(worktree, file, present)
    if file.exists():
        file.replace(index_path(worktree))
    journal.unlock_index()
