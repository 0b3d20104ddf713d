"""The uncommitted changes of a run or chat: list the files, show a diff, and restore them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from repoagent.edit.commit import new_edit_id
from repoagent.git.files import FileChange
from repoagent.git.index import read_entries, read_status
from repoagent.git.worktree import WorkTree
from repoagent.patch.render import canonical_diff
from repoagent.storage.locks import locked
from repoagent.tasks.changes.change_set import (
    ChangeSet,
    Overlaps,
    open_change_set,
    overlaps_text,
    paths_of,
    revert,
    revert_whole,
)
from repoagent.tasks.edit_tool import write, write_reverse
from repoagent.tasks.runs.directory import RunDirectory, refuse_foreign

_WAIT = 1.0  # seconds to wait for another process of the same run


class RemainingChanges(NamedTuple):
    """The paths of a run's changes that are `left` uncommitted in the files, `gone` from the files, or `committed` by
    the user."""

    left: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    committed: tuple[str, ...] = ()


def remaining_changes(worktree: WorkTree, change_set: ChangeSet) -> RemainingChanges:
    """The current state of the changes that the run has not committed."""
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
    """The paths of the run's uncommitted changes that are in the files, in the order of first change."""
    return tuple(change.name for change in _settled(worktree, run_dir).present())


def uncommitted_diff(worktree: WorkTree, run_dir: RunDirectory) -> str:
    """The run's uncommitted changes as a unified diff, without what others did to the files."""
    changes = _settled(worktree, run_dir).present()
    return canonical_diff(changes, hash_name=worktree.object_format)


def _settled(worktree: WorkTree, run_dir: RunDirectory) -> ChangeSet:
    """The change set, without changes that were committed just before the run was killed."""
    change_set = open_change_set(worktree, run_dir.changes)
    change_set.settle_commit()
    return change_set


class RestoreResult(NamedTuple):
    """paths: the restored files. left: left unchanged, because someone changed the same lines. copies: of the content
    of files that were restored whole."""

    paths: tuple[str, ...]
    left: Overlaps
    copies: tuple[Path, ...] = ()


def restore_changes(worktree: WorkTree, run_dir: RunDirectory, *, whole: bool = False) -> RestoreResult:
    """Undo all changes of a run, in the index too, and keep what others did to the files. Files in which someone
    changed the same lines are restored only with `whole`, after copies of them were saved.

    Raises Refused for a run that came with the repository, Busy while it is running, and what writing raises; then
    nothing is changed.
    """
    refuse_foreign(run_dir)
    with locked(run_dir.lock, timeout=_WAIT, what=f"the run {run_dir.name}"):
        change_set = _settled(worktree, run_dir)
        paths = tuple(change.name for change in change_set.changes)

        def write_unstaging(changes: Sequence[FileChange]) -> None:
            write_reverse(worktree, changes, change_set.changes, new_edit_id())

        overlaps = revert(change_set, paths, write_unstaging)
        if not (whole and overlaps):
            return RestoreResult(tuple(path for path in paths if path not in overlaps), overlaps)
        copies = revert_whole(
            change_set, tuple(overlaps), lambda changes: write(worktree, changes, new_edit_id())
        )
        return RestoreResult(paths, {}, copies)


def conflict_message(left: Overlaps, whole: str) -> str:
    """Why files were not restored, with the command `whole`, which restores them."""
    return (
        f"left unchanged, because the same lines were changed since: {overlaps_text(left)}. Resolve that by hand "
        f"and run it again; or use `{whole}` to undo those lines, too, keeping a copy"
    )
