"""The uncommitted changes of a run or chat: list the files, show a diff, and restore them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
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
from repoagent.tasks.changes.interrupted import settle_commit
from repoagent.tasks.changes.snapshot import names_of
from repoagent.tasks.edit_tool import write, write_reverse
from repoagent.tasks.runs.directory import RunDirectory, refuse_foreign

_WAIT = 1.0  # seconds to wait for another process of the same run

Overlapping = Literal["leave", "let-go", "whole"]


@dataclass(frozen=True)
class RemainingChanges:
    """The paths of a run's changes that are `left` uncommitted in the files, `gone` from the files, or `committed` by
    the user."""

    left: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    committed: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """Notes for the user."""
        sentences = []
        if self.gone:
            contain = "contains" if len(self.gone) == 1 else "contain"
            sentences.append(
                f"note: {names_of(self.gone, 5)} no longer {contain} the run's change: it was removed from the files "
                "during the run"
            )
        if self.committed:
            sentences.append(
                f"note: the last commit already contains the run's change of {names_of(self.committed, 5)}"
            )
        return sentences


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
    settle_commit(change_set)
    return change_set


@dataclass(frozen=True)
class RestoreResult:
    """paths: the restored files. left: left unchanged, because someone changed the same lines. let_go: left to the
    user. copies: of the content of files that were restored whole."""

    paths: tuple[str, ...]
    left: Overlaps = field(default_factory=dict)
    let_go: tuple[str, ...] = ()
    copies: tuple[Path, ...] = ()


def restore_changes(
    worktree: WorkTree, run_dir: RunDirectory, overlapping: Overlapping = "leave"
) -> RestoreResult:
    """Undo all changes of a run, in the index too, and keep what others did to the files. `overlapping` decides about
    files in which someone changed the same lines.

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
        restored = tuple(path for path in paths if path not in overlaps)
        if overlapping == "whole" and overlaps:
            copies = revert_whole(
                change_set, tuple(overlaps), lambda changes: write(worktree, changes, new_edit_id())
            )
            return RestoreResult(paths, copies=copies)
        if overlapping == "let-go" and overlaps:
            change_set.drop(overlaps)
            return RestoreResult(restored, let_go=tuple(overlaps))
        return RestoreResult(restored, overlaps)


def conflict_message(left: Overlaps, let_go: str, whole: str) -> str:
    """Why files were not restored, with the commands `let_go`, which keeps them, and `whole`, which restores them."""
    return (
        f"left unchanged, because the same lines were changed since: {overlaps_text(left)}. Resolve that by hand "
        f"and run it again; or use `{let_go}` to keep them as yours, or `{whole}` to undo those lines, too, "
        "keeping a copy"
    )
