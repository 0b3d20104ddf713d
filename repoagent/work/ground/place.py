"""A linked work tree for a run, so that the person's own stays as it is until they merge."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from repoagent.errors import Refused
from repoagent.repo import WorkTree, git, open_worktree
from repoagent.repo.branches import check_new
from repoagent.repo.facts import current_branch, head
from repoagent.repo.run import GitError, git_output


def linked(worktree: WorkTree, branch: str, folder: Path | None, name: str) -> WorkTree:
    """A linked work tree at HEAD, on the new branch `branch`: in `folder`, or in one inside of the git directory.

    Raises Refused where there is such a branch or folder, or no commit yet.
    """
    if head(worktree).commit is None:
        raise Refused("there is no commit yet to make a linked work tree of: commit something first")
    check_new(worktree, branch)
    place = Path(os.path.abspath(folder)) if folder is not None else _inside(worktree, name)  # noqa: PTH100
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise Refused(f"{place} is there already: name another folder for --worktree")
    return _added(worktree, place, "-b", branch, "--", str(place))


def found(worktree: WorkTree, folder: str) -> WorkTree | None:
    """The work tree that a run was given before, where it is still there. Git knows it as a linked work tree of this
    repository: any other folder is not even looked at."""
    if not folder or Path(folder) == worktree.top or not Path(folder).is_dir():
        return None
    listed = git(worktree.top, "worktree", "list", "--porcelain").split(b"\n")
    if b"worktree " + os.fsencode(folder) not in listed:
        return None
    other = _opened(Path(folder))
    return other if other.common_dir == worktree.common_dir else None


def reopened(worktree: WorkTree, folder: str, branch: str) -> WorkTree | None:
    """The linked work tree that a run was given before, made anew on its branch where it is gone since. None for a run
    that had none, or whose branch is checked out here now.

    Raises Refused where it can't be made, as when the branch is checked out in another work tree.
    """
    if (there := found(worktree, folder)) is not None:
        return there
    if not folder or not branch or Path(folder) == worktree.top or current_branch(worktree) == branch:
        return None
    known = git_output(
        worktree.top, "show-ref", "--verify", "--quiet", f"refs/heads/{branch}", ok=(0, 1, 128)
    )
    where = ("--", folder, branch) if known.returncode == 0 else ("-b", branch, "--", folder)
    return _added(worktree, Path(folder), *where)


def wind_up(worktree: WorkTree, place: WorkTree, branch: str, *, done: bool = True) -> str:
    """What to say of a linked work tree at the end of a run. It is removed where it was made for the run, which is
    `done`, and holds nothing that is not committed; the branch goes too where nothing was committed on it."""
    if not done or not _is_inside(worktree, place.top):
        return ""
    try:
        git(worktree.top, "worktree", "remove", "--", str(place.top), read_only=False)
    except GitError:  # something uncommitted is in it: it stays
        remove = f"git worktree remove --force {shlex.quote(str(place.top))}"
        return f"what is not committed is in {place.top}: `{remove}` takes it away"
    if _is_of_head(worktree, branch):
        git_output(worktree.top, "branch", "--quiet", "-d", "--", branch, read_only=False, ok=(0, 1))
        return f"nothing was committed: the branch {branch} is gone again"
    return f"the work is on the branch {branch}: `git merge {branch}` takes it over"


def clear_away(worktree: WorkTree, name: str, folder: str, branch: str) -> str:
    """Remove the linked work tree that was made for the run `name`, and its branch where no commit is on it alone; what
    there is to say of the branch, or of a folder that the person chose, which stays. Raises Refused, and removes
    nothing, where something in the work tree is not committed."""
    place = _inside(worktree, name)
    there = found(worktree, folder)
    if not folder or os.path.realpath(folder) != os.path.realpath(place):
        mine = there is None or not branch
        return "" if mine else f"its work tree stays: `git worktree remove {shlex.quote(folder)}` removes it"
    if there is not None:
        try:
            git(worktree.top, "worktree", "remove", "--", folder, read_only=False)
        except GitError as error:
            remove = f"git worktree remove --force {shlex.quote(folder)}"
            raise Refused(
                f"{name} has work that is not committed in {folder}: look there, or drop it by `{remove}`; then delete "
                "the run"
            ) from error
    ref = f"refs/heads/{branch}"
    if git_output(worktree.top, "show-ref", "--verify", "--quiet", ref, ok=(0, 1, 128)).returncode:
        return ""
    others = ("HEAD", f"--exclude={branch}", "--branches", "--tags", "--remotes")
    alone = git(worktree.top, "rev-list", "--max-count=1", ref, "--not", *others, "--")
    if (
        not alone
        and git_output(
            worktree.top, "branch", "--quiet", "-D", "--", branch, read_only=False, ok=(0, 1)
        ).returncode
        == 0
    ):
        return f"its branch {branch} is gone, for its commits are on others"
    return (
        f"its branch {branch} stays: `git branch -D {shlex.quote(branch)}` removes it, and the commits on it"
    )


def _is_of_head(worktree: WorkTree, branch: str) -> bool:
    """Whether the branch has no commit that is not in HEAD."""
    counted = git_output(worktree.top, "rev-list", "--count", f"HEAD..refs/heads/{branch}", "--", ok=(0, 128))
    return counted.stdout.strip() == b"0"


def _added(worktree: WorkTree, place: Path, *args: str) -> WorkTree:
    try:
        git(worktree.top, "worktree", "add", "--quiet", *args, read_only=False)
    except GitError as error:
        raise Refused(f"the linked work tree could not be made: {error}") from error
    return _opened(place)


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
