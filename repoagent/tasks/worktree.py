"""The linked work tree of a run: create it, reopen it on --resume, remove it when everything is committed.

The work tree is in a folder that the user names or, by default, in the git directory, where only repoagent removes it.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.errors import Refused, RepoagentError, UsageError
from repoagent.git.index import read_status
from repoagent.git.objects import head_commit, refuse_invalid_branch
from repoagent.git.process import GitError, git, git_output
from repoagent.git.worktree import WorkTree, current_branch, layout_of, open_worktree
from repoagent.tasks.runs.directory import RunDirectory, RunRecord, refuse_foreign
from repoagent.tasks.runs.list import Run, read_run

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.tasks.run_context import RunInterface, RunOutcome, RunRequest


def run_in_worktree(
    worktree: WorkTree, request: RunRequest, settings: Settings, ui: RunInterface, ready: ModelSetup
) -> RunOutcome:
    """Start or resume a run in its earlier linked work tree, in a new one if the request has a `worktree` or `branch`,
    otherwise in `worktree`. A linked work tree without uncommitted changes is removed at the end. Raises what
    `session.run_task`, `create_linked` and `reopen_linked` raise."""
    from repoagent.tasks.session import run_task

    run_dir, before = _record_of(worktree, request.name)
    if (earlier := reopen_linked(worktree, before.worktree, before.branch)) is not None:
        linked, branch = earlier, current_branch(earlier) or ""
    elif request.branch or request.worktree:
        branch = request.branch or f"repoagent/{request.name}"
        folder = Path(request.worktree) if request.worktree else None
        linked = create_linked(worktree, branch, folder, request.name)
        without = "; your uncommitted changes are not in it" if read_status(worktree).changed else ""
        ui.say(f"working in {linked.top}, on the new branch {branch}{without}")
    else:
        return run_task(worktree, request, settings, ui, ready)
    request = replace(request, worktree=str(linked.top), branch=branch)
    try:
        outcome = run_task(linked, request, settings, ui, ready)
    except RepoagentError:
        if not run_dir.conversation.exists():  # the run never started
            close_linked(worktree, linked, branch)
        raise
    if note := close_linked(worktree, linked, branch, done=outcome.kind == "done"):
        ui.say(note)
    return outcome


def resumed_worktree(worktree: WorkTree, name: str) -> WorkTree:
    """The linked work tree of the run `name`, recreated if it is gone; `worktree` if the run had none. Raises Refused
    for a run that came with the repository, and what `reopen_linked` raises."""
    _, before = _record_of(worktree, name)
    return reopen_linked(worktree, before.worktree, before.branch) or worktree


def worktree_of(worktree: WorkTree, run: Run) -> WorkTree:
    """The work tree of `run`. Raises UsageError if it is gone."""
    folder = run.record.worktree
    if not folder or Path(folder) == worktree.top:
        return worktree
    linked = find_linked(worktree, folder)
    if linked is None:
        raise UsageError(f"the work tree {folder} of {run.name} no longer exists")
    return linked


def _record_of(worktree: WorkTree, name: str) -> tuple[RunDirectory, RunRecord]:
    """The directory and record of a run, an empty record if it is new. Raises Refused for a run that came with the
    repository."""
    run_dir = RunDirectory(layout_of(worktree), name)
    refuse_foreign(run_dir)
    return run_dir, read_run(run_dir).record if run_dir.record.exists() else RunRecord()


def create_linked(worktree: WorkTree, branch: str, folder: Path | None, name: str) -> WorkTree:
    """Create a linked work tree at HEAD on the new branch `branch`, in `folder` or by default in the git directory.
    Raises Refused if the branch or folder exists, or if there is no commit yet."""
    if head_commit(worktree) is None:
        raise Refused("a linked work tree needs a commit to start from; create the first commit")
    refuse_invalid_branch(worktree, branch)
    path = Path(os.path.abspath(folder)) if folder is not None else _worktrees_folder(worktree) / name  # noqa: PTH100
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise Refused(f"{path} already exists; choose another folder for --worktree")
    return _add(worktree, path, "-b", branch, "--", str(path))


def find_linked(worktree: WorkTree, folder: str) -> WorkTree | None:
    """The linked work tree at `folder`; None if it is gone, or if git does not list it for this repository."""
    if not folder or Path(folder) == worktree.top or not Path(folder).is_dir():
        return None
    listed = git(worktree.top, "worktree", "list", "--porcelain").split(b"\n")
    if b"worktree " + os.fsencode(folder) not in listed:
        return None
    candidate = _open(Path(folder))
    return candidate if candidate.common_dir == worktree.common_dir else None


def reopen_linked(worktree: WorkTree, folder: str, branch: str) -> WorkTree | None:
    """The linked work tree at `folder`, recreated on `branch` if it is gone. Returns None without a folder, or if the
    branch is now checked out in `worktree`.

    Raises Refused if git cannot recreate it, because the branch is checked out elsewhere, or because git still lists
    the folder, which may be on a disk that is not mounted.
    """
    if (existing := find_linked(worktree, folder)) is not None:
        return existing
    if not folder or not branch or Path(folder) == worktree.top or current_branch(worktree) == branch:
        return None
    _forget_missing(worktree, folder)
    new = ("--", folder, branch) if _has_branch(worktree, branch) else ("-b", branch, "--", folder)
    return _add(worktree, Path(folder), *new)


def close_linked(worktree: WorkTree, linked: WorkTree, branch: str, *, done: bool = True) -> str:
    """Remove the linked work tree of a run that is `done`, if it is in the git directory and has no uncommitted
    changes, and its branch, if that has no commit of its own. Returns a note for the user, "" for none."""
    if not done or not _is_own(worktree, linked.top):
        return ""
    try:
        git(worktree.top, "worktree", "remove", "--", str(linked.top), read_only=False)
    except GitError:  # it has uncommitted changes
        remove = f"git worktree remove --force {shlex.quote(str(linked.top))}"
        return f"uncommitted work is left in {linked.top}; `{remove}` discards it"
    counted = git_output(worktree.top, "rev-list", "--count", f"HEAD..refs/heads/{branch}", "--", ok=(0, 128))
    if counted.stdout.strip() == b"0":
        git_output(worktree.top, "branch", "--quiet", "-d", "--", branch, read_only=False, ok=(0, 1))
        return f"nothing was committed; deleted branch {branch}"
    return f"the work is on branch {branch}; `git merge {branch}` merges it"


def linked_leftovers(worktree: WorkTree, record: RunRecord) -> str:
    """What is left of a run's linked work tree, with the command that removes it, for a message; "" for nothing. A work
    tree in the git directory that was removed by hand is unregistered."""
    folder, branch = record.worktree, record.branch
    if branch and find_linked(worktree, folder) is not None:
        return f"kept its work tree; `git worktree remove {shlex.quote(folder)}` removes it"
    _forget_missing(worktree, folder)
    if branch and _has_branch(worktree, branch):
        return f"kept its branch {branch}; `git branch -d {shlex.quote(branch)}` deletes it if it is merged"
    return ""


def _forget_missing(worktree: WorkTree, folder: str) -> None:
    """Unregister a work tree in the git directory whose folder is gone, so that git lets go of its branch."""
    if _is_own(worktree, folder) and not os.path.lexists(folder):
        git_output(worktree.top, "worktree", "remove", "--", folder, read_only=False, ok=(0, 128))


def _has_branch(worktree: WorkTree, branch: str) -> bool:
    ref = f"refs/heads/{branch}"
    return git_output(worktree.top, "show-ref", "--verify", "--quiet", ref, ok=(0, 1, 128)).returncode == 0


def _add(worktree: WorkTree, path: Path, *args: str) -> WorkTree:
    try:
        git(worktree.top, "worktree", "add", "--quiet", *args, read_only=False)
    except GitError as error:
        raise Refused(f"could not create the linked work tree: {error}") from error
    return _open(path)


def _open(path: Path) -> WorkTree:
    """Open a linked work tree, and make git find the repository only by the folder."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        os.environ.pop(name, None)
    return open_worktree(path)


def _is_own(worktree: WorkTree, folder: str | Path) -> bool:
    return os.path.realpath(folder).startswith(os.path.realpath(_worktrees_folder(worktree)) + os.sep)


def _worktrees_folder(worktree: WorkTree) -> Path:
    return worktree.common_dir / "repoagent" / "worktrees"
