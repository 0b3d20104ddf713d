"""A new branch for a commit, and back from it when the commit does not come about."""

from __future__ import annotations

import os
from pathlib import Path

from repoagent.errors import Refused
from repoagent.repo.run import GitError, git, git_output
from repoagent.repo.worktree import WorkTree


def check_new(worktree: WorkTree, name: str) -> None:
    """Raises Refused unless a branch `name` can be made, and left again where no commit comes about."""
    ref = git(worktree.top, "symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).strip()
    here = (worktree.git_dir / "HEAD").read_bytes().removeprefix(b"ref:").strip()
    if here.startswith(b"refs/heads/") and here not in (ref, b"refs/heads/.invalid"):
        names = [os.fsdecode(one.removeprefix(b"refs/heads/")) for one in (here, ref)]
        raise Refused(f"{names[0]} is a link to the branch {names[1]}: `git switch {names[1]}` first")
    if (
        git_output(worktree.top, "check-ref-format", f"refs/heads/{name}", ok=(0, 1)).returncode
        or name[0] == "-"
    ):
        raise Refused(f"{name} is no valid name for a branch: give another one")
    for other in _in_the_way(worktree, name):
        if other == name:
            raise Refused(f"the branch {name} exists already: give a new name, or switch to it first")
        raise Refused(f"there can't be a branch {name} beside the branch {other}: give another name")


def _in_the_way(worktree: WorkTree, name: str) -> list[str]:
    """Branches of this name, below it, or of a name that it is below: a ref is a file or a folder, not both."""
    parents = [name[:at] for at, letter in enumerate(name) if letter == "/"]
    patterns = [f"refs/heads/{branch}" for branch in (name, *parents)]
    found = git(worktree.top, "for-each-ref", "--format=%(refname)", *patterns)
    branches = [os.fsdecode(line).removeprefix("refs/heads/") for line in found.splitlines()]
    return [branch for branch in branches if branch in (name, *parents) or branch.startswith(f"{name}/")]


def switch_to_new(worktree: WorkTree, name: str, index: Path, came_from: str, mark: str) -> None:
    """`git switch -c NAME`; `index` is an index of HEAD that git may look at while ours is locked. The reflog of HEAD
    tells of it as always, and by `mark` who did it."""
    told = f"checkout: moving from {came_from} to {name} ({mark})"
    env = {"GIT_INDEX_FILE": str(index), "GIT_REFLOG_ACTION": told}
    git(worktree.top, "switch", "--quiet", "-c", name, env=env, read_only=False)


def switch_back(worktree: WorkTree, name: str, head: str | None, branch: str | None, mark: str) -> None:
    """Undo `switch_to_new`, or the half of it that a killed git has done, where `name` still is at `head`, and HEAD on
    it or on `branch`. A branch that somebody else has made meanwhile, as reflogs tell, stays."""
    ref = f"refs/heads/{name}"
    on = git(worktree.top, "symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).decode().strip()
    at = git(worktree.top, "rev-parse", "--quiet", "--verify", ref, ok=(0, 1)).decode().strip()
    before = f"refs/heads/{branch}" if branch is not None else ""
    if on not in (ref, before) or at != (head or ""):
        return
    log, sign = ("HEAD", mark) if on == ref else (ref, "Created from HEAD")  # `git branch` names the branch
    told = git(worktree.top, "log", "-g", "-n20", "--format=%gs", log, "--", ok=(0, 128))
    if told and sign.encode() not in told:
        return
    if on == before:
        pass
    elif branch is not None:
        git(worktree.top, "symbolic-ref", "HEAD", f"refs/heads/{branch}", read_only=False)
    elif head is not None:
        set_back(worktree, "--no-deref", "HEAD", head)
    if head is not None:
        set_back(worktree, "-d", ref, head)


def set_back(worktree: WorkTree, *arguments: str) -> None:
    """`git update-ref` that takes back what is our own. A hook of reference transactions is asked, but can't hold
    us to what it has let us only half do. Raises GitError where the reference is not what it should be."""
    try:
        git(worktree.top, "update-ref", *arguments, read_only=False)
    except GitError:
        git(worktree.top, "-c", "core.hooksPath=/dev/null", "update-ref", *arguments, read_only=False)
