"""A linked work tree for a run, so that the person's own stays as it is until they merge."""

from __future__ import annotations

import os
from pathlib import Path

from repoagent.errors import Refused
from repoagent.repo import WorkTree, git, open_worktree
from repoagent.repo.branches import check_new
from repoagent.repo.facts import head
from repoagent.repo.run import GitError


def linked(worktree: WorkTree, branch: str, folder: Path | None, name: str) -> WorkTree:
    """A linked work tree at HEAD, on the new branch `branch`: in `folder`, or in one inside of the git directory.

    Raises Refused where there is such a branch or folder, or no commit yet.
    """
    if head(worktree).commit is None:
        raise Refused("there is no commit yet to make a linked work tree of: commit something first")
    check_new(worktree, branch)
    place = folder.absolute() if folder is not None else _inside(worktree, name)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise Refused(f"{place} is there already: name another folder for --worktree")
    try:
        git(worktree.top, "worktree", "add", "--quiet", "-b", branch, "--", str(place), read_only=False)
    except GitError as error:
        raise Refused(f"the linked work tree could not be made: {error}") from error
    return _opened(place)


def found(worktree: WorkTree, folder: str) -> WorkTree | None:
    """The work tree that a run was given before, where it is still there."""
    if not folder or Path(folder) == worktree.top or not Path(folder).is_dir():
        return None
    other = _opened(Path(folder))
    return other if other.common_dir == worktree.common_dir else None


def give_up(worktree: WorkTree, place: WorkTree) -> bool:
    """Remove a linked work tree in which nothing is left that is not committed; whether it was. The branch stays."""
    if not _is_inside(worktree, place.top):
        return False
    try:
        git(worktree.top, "worktree", "remove", "--", str(place.top), read_only=False)
    except GitError:  # something uncommitted is in it: it stays
        return False
    return True


def _opened(place: Path) -> WorkTree:
    """From here on git is to find the repository by the folder alone."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        os.environ.pop(name, None)
    return open_worktree(place)


def _inside(worktree: WorkTree, name: str) -> Path:
    return worktree.common_dir / "repoagent" / "worktrees" / name


def _is_inside(worktree: WorkTree, place: Path) -> bool:
    inside = os.path.realpath(worktree.common_dir / "repoagent" / "worktrees")
    return os.path.realpath(place).startswith(inside + os.sep)
