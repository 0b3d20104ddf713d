"""Write, undo and list a run's uncommitted changes, and show them as a diff."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from repoagent.edit.commit import new_edit_id
from repoagent.git.files import FileChange, read_content
from repoagent.git.index import read_entries, read_status
from repoagent.git.merge import Conflict, merge_content
from repoagent.git.worktree import WorkTree
from repoagent.patch.render import canonical_diff
from repoagent.storage.atomic import write_whole
from repoagent.storage.locks import hold_lock
from repoagent.tasks.changes.change_set import (
    ChangeSet,
    Write,
    free_folder,
    names_of,
    open_change_set,
    paths_of,
)
from repoagent.tasks.runs.directory import RunDirectory, refuse_foreign

WRITE = "write"  # the event of a run's write in the journal, which `undo` does not undo on its own
_WAIT = 1.0  # seconds to wait for another process of the same run


def write_changes(worktree: WorkTree, changes: Sequence[FileChange], name: str) -> None:
    """Write all of `changes` or none. Raises FilesChanged if a file has changed since, and Refused or Busy if the
    files cannot be written."""
    from repoagent.git.transaction.results import Options
    from repoagent.git.transaction.transaction import Transaction

    if changes:
        with Transaction(worktree, changes, Options(no_commit=True), name, event=WRITE) as transaction:
            transaction.write()
            transaction.keep()


def write_reverse(
    worktree: WorkTree, changes: Sequence[FileChange], undone: Sequence[FileChange], name: str
) -> None:
    """Write `changes`, which revert those in `undone`, and unstage what the user has staged of the latter. Raises what
    `write_changes` raises, and Refused if the staged parts cannot be separated from other staged changes."""
    from repoagent.git.file_writer import steps_of
    from repoagent.git.undo import unstage_changes

    if changes:
        concerned = [change for change in undone if paths_of([change]) & paths_of(changes)]
        if not unstage_changes(worktree, changes, steps_of(concerned, name), WRITE, name):
            write_changes(worktree, changes, name)


def revert_changes(change_set: ChangeSet, paths: Sequence[str], write: Write) -> tuple[str, ...]:
    """Undo the run's changes to `paths` and keep what others did to the files. Files in which others changed the same
    lines stay unchanged and are returned. If `write` raises, nothing is changed."""
    change_set.drop_vanished()  # after a kill between the write and the save of the change set
    reverse: dict[str, FileChange] = {}
    overlaps: list[str] = []
    top = change_set.worktree.top
    for change in change_set.all_of(paths):
        current = read_content(top, change.name)
        moved_over = change.is_rename and read_content(top, change.old_path or "") is not None
        merged = merge_content(change_set.worktree, current, change.new, change.old)
        before = merged if current is not None else change.old  # someone deleted it
        if change.name in change_set.overlapping or moved_over or isinstance(before, Conflict):
            overlaps.append(change.name)
        else:
            path = change.path if current else None
            reverse[change.name] = FileChange(path, change.old_path, current, before)
    write([change for change in reverse.values() if not change.is_noop])
    change_set.drop(reverse)
    return tuple(overlaps)


class RemainingChanges(NamedTuple):
    """The paths of a run's changes that are `left` uncommitted in the files, `gone` from the files, or `committed` by
    the user."""

    left: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    committed: tuple[str, ...] = ()


def remaining_changes(worktree: WorkTree, change_set: ChangeSet) -> RemainingChanges:
    if not change_set.changes:
        return RemainingChanges()
    changed = read_status(worktree).changed
    known = read_entries(worktree, sorted(paths_of(change_set.changes)))
    left, gone, committed = [], [], []
    for change in change_set.changes:
        unchanged = not paths_of([change]) & changed.keys()
        if change_set.remaining(change) is None:
            gone.append(change.name)
        elif unchanged and (change.path in known if change.path else change.old_path not in known):
            committed.append(change.name)
        else:
            left.append(change.name)
    return RemainingChanges(tuple(left), tuple(gone), tuple(committed))


def uncommitted_files(worktree: WorkTree, run_dir: RunDirectory) -> tuple[str, ...]:
    """The paths of the run's uncommitted changes that are still in the work tree, in the order of first change."""
    return tuple(change.name for change in _settled(worktree, run_dir).present())


def uncommitted_diff(worktree: WorkTree, run_dir: RunDirectory) -> str:
    """The run's uncommitted changes as a unified diff, without what others did to the files."""
    return canonical_diff(_settled(worktree, run_dir).present(), hash_name=worktree.object_format)


def _settled(worktree: WorkTree, run_dir: RunDirectory) -> ChangeSet:
    """The change set, without changes that were committed just before the run was killed."""
    change_set = open_change_set(worktree, run_dir.changes)
    change_set.settle_commit()
    return change_set


class RestoreResult(NamedTuple):
    """The result of restoring a run's changes.

    paths: the restored files
    left: files left unchanged, because someone changed the same lines
    copies: the saved content of files that were restored whole
    """

    paths: tuple[str, ...]
    left: tuple[str, ...]
    copies: tuple[Path, ...] = ()


def restore_changes(worktree: WorkTree, run_dir: RunDirectory, *, whole: bool = False) -> RestoreResult:
    """Undo all of a run's changes, in the index too, and keep what others did to the files. Files in which someone
    changed the same lines are restored only with `whole`, after copies of them are saved.

    Raises Refused for a run that came with the repository, Busy while the run is running, and what `write_reverse`
    raises. Nothing is changed then, except that with `whole` other files may already be restored.
    """
    refuse_foreign(run_dir)
    with hold_lock(run_dir.lock, timeout=_WAIT, label=f"run {run_dir.name}"):
        change_set = _settled(worktree, run_dir)
        changes, edit_id = change_set.changes, new_edit_id()
        paths = tuple(change.name for change in changes)
        overlaps = revert_changes(
            change_set, paths, lambda reverse: write_reverse(worktree, reverse, changes, edit_id)
        )
        if not (whole and overlaps):
            return RestoreResult(tuple(path for path in paths if path not in overlaps), overlaps)
        reverse, copies = [], []
        folder = free_folder(change_set.folder, "backup")
        changes = tuple(change_set.all_of(overlaps))
        for change in changes:
            for path in dict.fromkeys(filter(None, (change.old_path, change.path))):
                current = read_content(worktree.top, path)
                before = change.old if path == change.old_path else None
                reverse.append(FileChange.at(path, current, before))
                if current is not None:
                    write_whole(folder / path, current.data)
                    copies.append(folder / path)
        write_changes(worktree, [change for change in reverse if not change.is_noop], new_edit_id())
        change_set.drop([change.name for change in changes])
        return RestoreResult(paths, (), tuple(copies))


def conflict_message(left: Sequence[str], whole: str) -> str:
    """A message that says why files were not restored. `whole` is the command that restores them."""
    return (
        f"could not undo the run's changes to {names_of(left)}, because the same lines were changed afterwards; "
        f"undo them by hand, or use `{whole}`, which undoes the later changes too and keeps a copy"
    )
