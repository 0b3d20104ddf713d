"""What a run or a chat has changed and not committed: which files, as a diff, and how to restore them."""

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
from repoagent.tasks.changes.change_set import ChangeSet, open_change_set
from repoagent.tasks.changes.interrupted import settle_commit
from repoagent.tasks.changes.revert import Left, put_back, put_back_whole, said_of
from repoagent.tasks.edit_tool import write, write_back
from repoagent.tasks.runs.directory import RunDirectory, refuse_foreign

_WAIT = 1.0  # seconds, for a turn that another process does of the same conversation

Overlapping = Literal["leave", "let-go", "whole"]


@dataclass(frozen=True)
class RemainingChanges:
    """The paths of a run's changes: `left` in the files and not committed, `gone` out of the files, and those of which
    the last commit holds all there is (`held`), as after a commit of the person's own."""

    left: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    held: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """What a person should know of it."""
        found = []
        if self.gone:
            contain = "contains" if len(self.gone) == 1 else "contain"
            found.append(
                f"note: {_names(self.gone)} no longer {contain} the run's change: it was removed from the files "
                "during the run"
            )
        if self.held:
            found.append(f"note: the last commit already contains the run's change of {_names(self.held)}")
        return found


def remaining_changes(worktree: WorkTree, change_set: ChangeSet) -> RemainingChanges:
    """What has become of the changes that are not committed by the run."""
    if not change_set.changes:
        return RemainingChanges()
    changed = read_status(worktree).changed
    names = {name for change in change_set.changes for name in (change.old_path, change.path) if name}
    known = read_entries(worktree, sorted(names))
    found: dict[str, list[str]] = {"left": [], "gone": [], "held": []}
    for change in change_set.changes:
        committed = not {change.old_path, change.path} & changed.keys()
        if change_set.standing(change) is None:
            found["gone"].append(change.name)
        elif committed and (change.path in known if change.path else change.old_path not in known):
            found["held"].append(change.name)
        else:
            found["left"].append(change.name)
    return RemainingChanges(**{key: tuple(some) for key, some in found.items()})


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def uncommitted_files(worktree: WorkTree, run_dir: RunDirectory) -> tuple[str, ...]:
    """The paths that it has changed and not committed, in the order of first change; not those of which nothing is in
    the files any more, for they are in a stash, say."""
    return tuple(change.name for change in _settled(worktree, run_dir).present())


def uncommitted_diff(worktree: WorkTree, run_dir: RunDirectory) -> str:
    """The same as a unified diff, without what else was done to the files."""
    changes = _settled(worktree, run_dir).present()
    return canonical_diff(changes, hash_name=worktree.object_format)


def _settled(worktree: WorkTree, run_dir: RunDirectory) -> ChangeSet:
    """The ledger, without what was committed just before the run was ended."""
    change_set = open_change_set(worktree, run_dir.changes)
    settle_commit(change_set)
    return change_set


@dataclass(frozen=True)
class RestoreResult:
    """The paths that were taken back; those that were `left` as they are, for somebody has changed the same lines, and
    which lines; of those `whole` that were taken back with that, the copies of what they held."""

    paths: tuple[str, ...]
    left: Left = field(default_factory=dict)
    let_go: tuple[str, ...] = ()
    copies: tuple[Path, ...] = ()


def restore_changes(
    worktree: WorkTree, run_dir: RunDirectory, overlapping: Overlapping = "leave"
) -> RestoreResult:
    """Take all of it back, out of the index too where it was staged; what else was done to the files stays. A file in
    which somebody has changed the same lines is left as it is, or, by `overlapping`, let go of, or taken back whole
    with a copy kept of what it held.

    Raises Refused where the run came with the repository; Busy where a turn of it is at work, and what writing raises;
    nothing is changed then.
    """
    refuse_foreign(run_dir)
    with locked(run_dir.lock, timeout=_WAIT, what=f"the run {run_dir.name}"):
        change_set = _settled(worktree, run_dir)
        paths = tuple(change.name for change in change_set.changes)

        def write_now(changes: Sequence[FileChange]) -> None:
            if changes:
                write(worktree, changes, new_edit_id())

        def write_staged(changes: Sequence[FileChange]) -> None:
            if changes:
                write_back(worktree, changes, change_set.changes, new_edit_id())

        found = put_back(change_set, paths, write_staged)
        taken = tuple(path for path in paths if path not in found)
        if overlapping == "whole" and found:
            return RestoreResult(paths, copies=put_back_whole(change_set, tuple(found), write_now))
        if overlapping == "let-go" and found:
            change_set.drop(found)
            return RestoreResult(taken, let_go=tuple(found))
        return RestoreResult(taken, found)


def conflict_message(left: Left, let_go: str, whole: str) -> str:
    """Why files were not taken back, and what can be done, in a sentence: the commands that let go of them, and that
    take them back `whole`."""
    return (
        f"left unchanged, because the same lines were changed since: {said_of(left)}. Resolve that by hand "
        f"and run it again; or use `{let_go}` to keep them as yours, or `{whole}` to undo those lines, too, "
        "keeping a copy"
    )
