"""Select the change to review: find the two sides to compare.

`Comparison.earlier` has the paths that changed earlier on the branch: a partner among them is not missing.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from repoagent.errors import UsageError
from repoagent.git.facts import current_branch
from repoagent.git.process import OFFLINE, GitError, git, git_output
from repoagent.git.worktree import WorkTree
from repoagent.review.change import Kind

How = Literal["staged", "worktree", "range", "base", "commit", "diff"]

BRANCH_COMMITS = 300  # of a branch; a longer branch is more than one piece of work
BRANCH_SECONDS = 0.15
MESSAGES = 500  # commits of a range whose messages are read
_DEFAULTS = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master")
_IDENT = re.compile(rb"(.*>) \d+ [-+]\d+\n?", re.DOTALL)


class ChangeSelector(NamedTuple):
    """Which change the user named. `value` is the range, the base or the commit. `pathspecs` have git's meaning,
    relative to `cwd`. `diff` is the text of a diff."""

    how: How = "staged"
    value: str = ""
    pathspecs: tuple[str, ...] = ()
    cwd: Path | None = None
    diff: bytes = b""


class Comparison(NamedTuple):
    """The arguments for `git diff`, and the properties of the change apart from its files.

    `parents` are the further parents of a merge: a file that equals the version of one of them was not edited in the
    merge.
    """

    kind: Kind
    title: str
    arguments: tuple[str, ...]
    base: str
    head: str = ""
    message: str = ""
    earlier: frozenset[str] = frozenset()
    author: bytes = b""
    parents: tuple[str, ...] = ()


def _output(cwd: Path, *arguments: str) -> bytes | None:
    """The output of git; None if it fails."""
    result = git_output(cwd, *arguments, env=OFFLINE, ok=(0, 1, 128))
    return result.stdout if result.returncode == 0 else None


def read_blob(top: Path, name: str) -> bytes | None:
    """The blob `name` (an id, or COMMIT:PATH); None if it is missing or a partial clone lacks it."""
    return _output(top, "cat-file", "blob", name)


def resolve_commit(top: Path, name: str) -> str | None:
    """The full id of the commit that `name` resolves to; None for other objects and missing ones."""
    out = _output(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return (out or b"").decode().strip() or None


def merge_base(top: Path, *commits: str) -> str | None:
    """The merge base of the first commit with the others; None if there is none."""
    return (_output(top, "merge-base", *commits) or b"").decode().strip() or None


def _paths_of_commits(
    top: Path, tip: str, without: Sequence[str], most: int
) -> tuple[list[frozenset[str]], bool]:
    """The paths of each commit, without merges, that is reachable from `tip` but not from `without`, for at most `most`
    commits that git lists within 0.15 s; and whether time ran out. Raises GitError."""
    from repoagent.history.log import TimedGit

    data, late = TimedGit(
        top, "log", "--format=%x01", "--name-only", "-z", "--no-merges", "--no-renames", "--no-ext-diff", "--no-color",
        f"--max-count={most}", tip, *(f"^{name}" for name in without), "--",
        deadline=time.monotonic() + BRANCH_SECONDS,
    ).read()  # fmt: skip
    entries = [entry.split(b"\0") for entry in data.split(b"\x01")[1:]]
    if late and entries:
        entries[-1].pop()  # may be truncated
    names = [[name.lstrip(b"\n") for name in entry if name.strip(b"\n")] for entry in entries]
    return [frozenset(map(os.fsdecode, entry)) for entry in names], late


def changed_paths(top: Path, tip: str, without: Sequence[str]) -> frozenset[str]:
    """The paths changed by the commits that are reachable from `tip` but not from `without`: by the last 300 that git
    lists within 0.15 s."""
    try:
        return frozenset().union(*_paths_of_commits(top, tip, without, BRANCH_COMMITS)[0])
    except GitError:  # a broken ref, or a partial clone without its trees
        return frozenset()


def paths_by_commit(top: Path, tip: str, base: str, most: int) -> list[frozenset[str]] | None:
    """The paths of each commit that is reachable from `tip` but not from `base`; None if there are more than `most`, or
    if git takes too long."""
    try:
        commits, late = _paths_of_commits(top, tip, (base,), most + 1)
    except GitError:  # a partial clone lacks its trees
        return None
    return None if late or len(commits) > most else commits


def _earlier_on_branch(worktree: WorkTree, base: str, other_parents: Sequence[str]) -> frozenset[str]:
    """The paths changed on the current branch up to the commit `base`, and by either side of a merge with
    `other_parents` since they forked. The branch starts at its upstream or else at the default branch, never at itself
    or at `base`."""
    if not base:
        return frozenset()
    branch = current_branch(worktree)
    current = f"refs/heads/{branch}" if branch else ""
    form = "--format=%(refname) %(objectname) %(upstream) %(symref)"
    out = git(worktree.top, "for-each-ref", form, "--", *filter(None, [current]), *_DEFAULTS)
    upstream, targets, oids = "", {}, {}
    for line in os.fsdecode(out).splitlines():
        name, oid, upstream_name, symbolic = line.split(" ")
        if name == current:
            upstream = upstream_name
        targets[name] = symbolic or name
        oids[targets[name]] = oid
    fork = upstream or next((targets[name] for name in _DEFAULTS if name in targets), "")
    pairs = [pair for parent in other_parents for pair in ((base, parent), (parent, base))]
    if fork and fork != current and oids.get(fork) != base:
        pairs.append((base, fork))
    return frozenset().union(*(changed_paths(worktree.top, tip, (start,)) for tip, start in pairs))


def amended_parents(worktree: WorkTree, head: str) -> tuple[str, ...] | None:
    """The parents of HEAD if this process is a hook of `git commit --amend`, otherwise None.

    git does not pass that to hooks, but it sets GIT_AUTHOR_DATE ("@1700000000 +0100"), and an amended commit keeps its
    author date. A date within the last two seconds counts as that of a new commit.
    """
    date = os.environ.get("GIT_AUTHOR_DATE", "").removeprefix("@")
    seconds = date.split(" ")[0]
    is_current = seconds.isdecimal() and int(seconds) >= int(time.time()) - 2
    if "GIT_INDEX_FILE" not in os.environ or not date or is_current:
        return None
    form = "--format=%ad%n%ae%n%P"
    out = git(worktree.top, "log", "-1", "--no-mailmap", "--date=raw", form, head, "--", env=OFFLINE)
    when, mail, parents = os.fsdecode(out).split("\n")[:3]
    if when != date or mail != os.environ.get("GIT_AUTHOR_EMAIL", mail):
        return None
    return tuple(parents.split())


def author_ident(worktree: WorkTree) -> bytes:
    """The author of an uncommitted change as "Name <mail>", from the environment of a hook or from git; b"" if
    unknown."""
    name, mail = os.environ.get("GIT_AUTHOR_NAME"), os.environ.get("GIT_AUTHOR_EMAIL")
    if name and mail:
        return os.fsencode(f"{name} <{mail}>")
    match = _IDENT.fullmatch(_output(worktree.top, "var", "GIT_AUTHOR_IDENT") or b"")
    return match[1] if match else b""


def compare(worktree: WorkTree, head: str | None, selector: ChangeSelector) -> Comparison:
    """Resolve `selector` in this repository; `head` is the commit at HEAD, None before the first one.

    Raises UsageError for an unknown revision.
    """
    how, value = selector.how, selector.value
    if how in ("staged", "worktree"):
        return _uncommitted(worktree, head, staged=how == "staged")
    if head is None and how == "base":
        raise UsageError("there is no commit yet to compare with a base")
    if how == "commit":
        return _commit(worktree, value)
    if how == "base":
        return _range(worktree, value, "HEAD", f"{value}...HEAD")
    old, dots, new = value.partition("..." if "..." in value else "..")
    if not dots:
        raise UsageError(f"{value} is not a range; use {value}..HEAD, --base {value} or --commit {value}")
    return _range(worktree, old or "HEAD", new or "HEAD", value)


def _uncommitted(worktree: WorkTree, head: str | None, *, staged: bool) -> Comparison:
    author = author_ident(worktree)
    if head is None:
        if not staged:
            raise UsageError("there is no commit yet to compare the work tree with; stage the files instead")
        return Comparison("staged", "the staged change", ("--cached",), "", author=author)
    kind: Kind = "staged" if staged else "worktree"
    title = "the staged change" if staged else "the changes of the work tree"
    parents, base = _ids_in(worktree.git_dir / "MERGE_HEAD"), head
    amended = amended_parents(worktree, head) if staged and not parents else None
    if parents:
        title += " (a merge)"
    elif amended is not None and (amended or head not in _ids_in(worktree.common_dir / "shallow")):
        base, *other_parents = amended or ("",)
        title, parents = f"{title} (amends {head[:10]})", tuple(other_parents)
    arguments = (*(("--cached",) if staged else ()), base or _empty_tree(worktree))
    earlier = _earlier_on_branch(worktree, base, parents)
    return Comparison(kind, title, arguments, base, earlier=earlier, author=author, parents=parents)


def _ids_in(path: Path) -> tuple[str, ...]:
    """The ids in a file of the git directory, such as MERGE_HEAD and `shallow`; none if it does not exist."""
    try:
        return tuple(path.read_text().split())
    except OSError:
        return ()


def _commit(worktree: WorkTree, name: str) -> Comparison:
    commit = _resolve(worktree, name)
    out = git(
        worktree.top, "log", "-1", "--no-mailmap", "--encoding=UTF-8", "--format=%P%x00%an <%ae>%x00%h %s%x00%B",
        commit, "--", env=OFFLINE,
    )  # fmt: skip
    parents, author, subject, message = out.split(b"\0", 3)
    base, *other_parents = os.fsdecode(parents).split() or [""]
    if not base and commit in _ids_in(worktree.common_dir / "shallow"):
        raise UsageError(f"the clone is shallow and lacks the parent of {name}; run `git fetch --deepen=1`")
    return Comparison(
        "commit", f"commit {subject.decode(errors='replace')}", (base or _empty_tree(worktree), commit), base, commit,
        message.decode(errors="replace"), _earlier_on_branch(worktree, base, other_parents), author,
        tuple(other_parents),
    )  # fmt: skip


def _range(worktree: WorkTree, old: str, new: str, title: str) -> Comparison:
    """Compare `new` with its merge base with `old`."""
    before, head = _resolve(worktree, old), _resolve(worktree, new)
    base = merge_base(worktree.top, before, head)
    if base is None:
        shallow = (worktree.common_dir / "shallow").exists()
        remedy = "; the clone is shallow, so run `git fetch --deepen=200`" if shallow else ""
        raise UsageError(f"{old} and {new} have no common ancestor{remedy}")
    out = git(
        worktree.top, "log", "-z", "--no-mailmap", "--encoding=UTF-8", f"--max-count={MESSAGES}",
        "--format=%an <%ae>%n%B", head, f"^{base}", "--", env=OFFLINE,
    )  # fmt: skip
    commits = [entry.partition(b"\n") for entry in out.split(b"\0") if entry]
    count = f"{len(commits):,}{'+' * (len(commits) == MESSAGES)} commit{'s' * (len(commits) != 1)}"
    message = "\n".join(text.decode(errors="replace") for _, _, text in commits)
    author = commits[0][0] if commits else b""
    earlier = changed_paths(worktree.top, head, (base,))
    return Comparison("range", f"{title} ({count})", (base, head), base, head, message, earlier, author)


def _resolve(worktree: WorkTree, name: str) -> str:
    """As `resolve_commit`, but raise UsageError if there is none."""
    commit = resolve_commit(worktree.top, name)
    if commit is None:
        raise UsageError(f"there is no commit {name}: name a commit, a branch or a tag")
    return commit


def _empty_tree(worktree: WorkTree) -> str:
    return git(worktree.top, "hash-object", "-t", "tree", "--stdin").decode().strip()
