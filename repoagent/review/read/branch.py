"""What was changed on the branch before: a partner that came a commit earlier is not missing."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

from repoagent.history.timed import TimedGit
from repoagent.repo.facts import current_branch
from repoagent.repo.run import OFFLINE, GitError, git, git_output
from repoagent.repo.worktree import WorkTree

_COMMITS = 300  # of a branch; a longer one is no single piece of work
_SECONDS = 0.15
_DEFAULTS = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master")
_IDENT = re.compile(rb"(.*>) \d+ [-+]\d+\n?", re.DOTALL)


def forks(worktree: WorkTree, tip: str) -> list[str]:
    """The refs that a branch is measured against: its upstream, else the default branch; never itself, and none that
    stands at `tip`, since nothing can be between them. One git call."""
    branch = current_branch(worktree)
    own = [f"refs/heads/{branch}"] if branch else []
    form = "--format=%(refname) %(objectname) %(upstream) %(symref)"
    out = git(worktree.top, "for-each-ref", form, "--", *own, *_DEFAULTS)
    upstream, found, at = "", {}, {}
    for line in os.fsdecode(out).splitlines():
        name, oid, above, symbolic = line.split(" ")
        if own and name == own[0]:
            upstream = above
        found[name] = symbolic or name
        at[found[name]] = oid
    defaults = [found[name] for name in _DEFAULTS if name in found]
    chosen = [upstream] if upstream else defaults[:1]
    return [name for name in chosen if name not in own and at.get(name) != tip]


def touched(worktree: WorkTree, tip: str, without: Sequence[str], *, first: int = 0) -> set[str]:
    """The paths that the commits changed which `tip` reaches and `without` does not; at most 300 commits, at most
    0.15 s, no merges. `first`: only so many of the newest."""
    walk = TimedGit(
        worktree.top, "log", "--format=", "--name-only", "-z", "--no-merges", "--no-renames", "--no-ext-diff",
        "--no-color", f"--max-count={first or _COMMITS}", tip, *(f"^{name}" for name in without), "--",
        deadline=time.monotonic() + _SECONDS,
    )  # fmt: skip
    try:
        data, late = walk.read()
    except GitError:  # a ref that points nowhere, or a partial clone without its trees
        return set()
    names = data.split(b"\0")
    return {os.fsdecode(name.lstrip(b"\n")) for name in (names[:-1] if late else names) if name.strip(b"\n")}


def parts(top: Path, tip: str, base: str, most: int) -> list[frozenset[str]] | None:
    """The paths of each commit, no merge, that `tip` reaches and `base` does not; None of more than `most`, and where
    it takes longer than 0.15 s."""
    walk = TimedGit(
        top, "log", "--format=%x01", "--name-only", "-z", "--no-merges", "--no-renames", "--no-ext-diff", "--no-color",
        f"--max-count={most + 1}", tip, f"^{base}", "--",
        deadline=time.monotonic() + _SECONDS,
    )  # fmt: skip
    try:
        data, late = walk.read()
    except GitError:  # a partial clone lacks its trees
        return None
    entries = data.split(b"\x01")[1:]
    if late or len(entries) > most:
        return None
    return [
        frozenset(os.fsdecode(name.lstrip(b"\n")) for name in entry.split(b"\0") if name.strip(b"\n"))
        for entry in entries
    ]


def earlier_on_branch(worktree: WorkTree, tip: str) -> frozenset[str]:
    """The paths that were changed on the branch of HEAD up to the commit `tip`, before what is reviewed. None on a
    branch without an upstream that is the default one itself."""
    without = forks(worktree, tip)
    return frozenset(touched(worktree, tip, without)) if without else frozenset()


def amended(worktree: WorkTree, head: str) -> tuple[str, ...] | None:
    """The parents of HEAD, when it is about to be replaced: `git commit --amend` has started us as a hook.

    git says so nowhere, but tells its hooks the author's date of the commit that it makes, and an amended one keeps it.
    """
    date = os.environ.get("GIT_AUTHOR_DATE", "")
    if "GIT_INDEX_FILE" not in os.environ or not date or _is_now(date):
        return None
    done = git_output(
        worktree.top, "log", "-1", "--no-mailmap", "--date=raw", "--format=%ad%n%ae%n%P", head, "--", env=OFFLINE
    )  # fmt: skip
    when, mail, parents = os.fsdecode(done.stdout).split("\n")[:3]
    if when != date.removeprefix("@") or mail != os.environ.get("GIT_AUTHOR_EMAIL", mail):
        return None
    return tuple(parents.split())


def _is_now(date: str) -> bool:
    """Whether a date as git writes it, "@1700000000 +0100", is that of a commit that begins now: after one that was
    made in the same second it says nothing."""
    seconds = date.removeprefix("@").split(" ")[0]
    return seconds.isdecimal() and int(seconds) >= int(time.time()) - 2


def who_commits(worktree: WorkTree) -> bytes:
    """Who makes the change that is not committed yet, as "Name <mail>"; b"" where git does not know. It tells its
    hooks in the environment."""
    name, mail = os.environ.get("GIT_AUTHOR_NAME"), os.environ.get("GIT_AUTHOR_EMAIL")
    if name and mail:
        return os.fsencode(f"{name} <{mail}>")
    done = git_output(worktree.top, "var", "GIT_AUTHOR_IDENT", ok=(0, 1, 128))
    found = _IDENT.fullmatch(done.stdout) if done.returncode == 0 else None
    return found[1] if found else b""
