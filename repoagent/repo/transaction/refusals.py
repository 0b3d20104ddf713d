"""States of the work tree, and of a file, in which a commit of a change would be one of more, or of less."""

from __future__ import annotations

import shlex

from repoagent.errors import Refused
from repoagent.repo.change import SUBMODULE, FileChange
from repoagent.repo.facts import head_ref, operation
from repoagent.repo.status import Status
from repoagent.repo.transaction.results import Inseparable
from repoagent.repo.transaction.versions import FIRST, Versions
from repoagent.repo.worktree import WorkTree

_ONLY_WRITE = ", or use --no-commit to only write the files"


def refuse_operation(worktree: WorkTree, *, offer: bool = True) -> None:
    """Raises Refused where a commit would be taken for a part of a merge, rebase, …, or where HEAD is on no branch;
    `offer` --no-commit there."""
    refuse_no_branch(worktree, offer=offer)
    what = operation(worktree)
    if what not in (None, "bisect"):
        article = "an" if what == "am" else "a"
        raise Refused(
            f"{article} {what} is in progress, and a commit now would be taken for a part of it: finish it or "
            f"abort it first{_ONLY_WRITE if offer else ''}"
        )


def refuse_no_branch(worktree: WorkTree, *, offer: bool = True) -> None:
    """Raises Refused where HEAD names a reference that is no branch. A detached HEAD names none."""
    ref = head_ref(worktree)
    if ref is not None and not ref.startswith("refs/heads/"):
        raise Refused(
            f"HEAD is on {ref}, which is no branch: switch to a branch first (git switch){_ONLY_WRITE if offer else ''}"
        )


def refuse_unmerged(status: Status, *, offer: bool = True) -> None:
    """Raises Refused while the index has conflicts; `offer` --no-commit there."""
    if status.unmerged:
        raise Refused(
            f"{', '.join(status.unmerged[:3])} has merge conflicts in the index: resolve them and `git add` "
            f"first{_ONLY_WRITE if offer else ''}"
        )


def refuse_what_is_in_the_way(versions: Versions, change: FileChange) -> None:
    """Raises Refused where the change is one of a submodule, of a file that git has not, or of one that takes the
    place of something else that git has; not the last two where files are committed whole."""
    for path in {change.old_path, change.path} - {None}:
        entry = path and (versions.staged(path) or versions.in_head(path))
        if entry and entry.mode == SUBMODULE:
            raise Refused(f"{path} is a submodule: run repoagent inside it")
    if versions.is_whole(change):
        return
    if change.old_path is not None and versions.in_head(change.old_path) is None:
        raise Inseparable(_not_in_head(versions, change.old_path), change.name)
    if change.path is not None and change.path != change.old_path and versions.in_place is None:
        _refuse_taken_place(versions, change.path)


def _not_in_head(versions: Versions, path: str) -> str:
    known = "staged but not in the last commit" if versions.staged(path) else "not tracked"
    ways_out = "use --include-dirty to commit it whole, or --no-commit to only write it"
    if versions.in_place is not None:
        ways_out = versions.ways_out
    return (
        f"{path} is {known}, so a commit of the edit would be a commit of the whole file: "
        f"{ways_out if versions.offer else FIRST}"
    )


def _refuse_taken_place(versions: Versions, target: str) -> None:
    """For a new file, or the new place of one."""
    if target in versions.index and versions.index[target].skip_worktree:
        raise Refused(left_out(target))
    if versions.in_head(target) or versions.staged(target):
        raise Refused(f"{target} is missing in the work tree, but git has it: {versions.ways_out}")
    for path in versions.in_the_way(target):
        if versions.status.changed[path].submodule:
            raise Refused(f"{target} is in the submodule {path}: run repoagent inside it")
        raise Refused(f"{target} would take the place of {path}, which git still has: {versions.ways_out}")


def left_out(path: str) -> str:
    """What to say of a tracked file that a sparse checkout leaves out. A plain `git restore` does not see it."""
    return (
        f"{path} is tracked, but left out of this work tree: bring it back first with "
        f"`git restore --ignore-skip-worktree-bits {shlex.quote(path)}`, or all of its folder with "
        "`git sparse-checkout add FOLDER`"
    )
