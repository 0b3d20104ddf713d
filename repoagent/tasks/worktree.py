"""A linked work tree for a run, so that the person's own stays as it is until they merge.

The state of the repository that a run stands on: whether its commit could be made at all, which is asked before a
model is paid, and what of its change is still there in the end.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.edit.checks import preflight
from repoagent.edit.request import EditRequest
from repoagent.errors import Refused
from repoagent.git.facts import current_branch, head, unmerged
from repoagent.git.index import Status, read_entries, read_status
from repoagent.git.objects import check_new
from repoagent.git.process import GitError, git, git_output
from repoagent.git.transaction.plan import refuse_operation, refuse_unmerged
from repoagent.git.worktree import WorkTree, open_worktree
from repoagent.tasks.changes.change_set import ChangeSet
from repoagent.tasks.context import RunRequest


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


def refuse_vain(worktree: WorkTree, request: RunRequest) -> None:
    """Raise what the commit would raise in the end whatever the change is: Refused in the middle of a merge or a
    rebase, UsageError where git does not know who commits, Busy while another program holds the index.

    A chat, and a run that commits nothing, is free to begin.
    """
    commits = not request.commit.no_commit and not request.plan_only and request.mode != "read-only"
    if request.kind != "run" or not commits:
        return
    refuse_operation(worktree)
    refuse_unmerged(Status(None, None, {}, unmerged(worktree)))
    preflight(worktree, EditRequest(request.prompt, (), commit=request.commit))


def place_of_person(top: Path) -> str:
    """The folder that the person is in, from the top of the work tree; "" at the top and outside of it."""
    try:
        here = os.path.relpath(os.path.realpath(Path.cwd()), os.path.realpath(top))
    except OSError:  # it was removed under us
        return ""
    outside = here in {os.curdir, os.pardir} or here.startswith(os.pardir + os.sep)
    return "" if outside else here


@dataclass(frozen=True)
class Preconditions:
    """The paths of a run's changes: `left` in the files and not committed, `gone` out of the files, and those of which
    the last commit holds all there is (`held`), as after a commit of the person's own."""

    left: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    held: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """What a person should know of it."""
        found = []
        if self.gone:
            do = "does" if len(self.gone) == 1 else "do"
            found.append(
                f"note: {_names(self.gone)} {do} not hold the run's change any more: it was taken out of the files "
                "while the run worked"
            )
        if self.held:
            found.append(f"note: the last commit holds the run's change of {_names(self.held)} already")
        return found


def standing(worktree: WorkTree, change_set: ChangeSet) -> Preconditions:
    """What has become of the changes that are not committed by the run."""
    if not change_set.changes:
        return Preconditions()
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
    return Preconditions(**{key: tuple(some) for key, some in found.items()})


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
