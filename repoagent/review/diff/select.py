"""Select the change to review: open the repository, and find the two sides to compare.

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
from repoagent.git.worktree import WorkTree, open_at_head
from repoagent.history.log import TimedGit
from repoagent.review.change import Kind

How = Literal["staged", "worktree", "range", "base", "commit", "diff"]


class ChangeSelector(NamedTuple):
    """Which change the user named. `value` is the range, the base or the commit. `pathspecs` have git's meaning,
    relative to `cwd`. `diff` is the text of a diff."""

    how: How = "staged"
    value: str = ""
    pathspecs: tuple[str, ...] = ()
    cwd: Path | None = None
    diff: bytes = b""


def open_repository(cwd: Path) -> tuple[WorkTree, str | None, bool]:
    """The work tree, the id of the commit at HEAD (None before the first one), and whether the repository is bare: then
    GIT_DIR must name it, and its git directory is used as the top. Raises UsageError as `open_worktree`."""
    try:
        return (*open_at_head(cwd), False)
    except UsageError:
        found = _bare(cwd) if "GIT_DIR" in os.environ else None
        if found is None:
            raise
        return (*found, True)


def _bare(cwd: Path) -> tuple[WorkTree, str | None] | None:
    asked = ("--is-bare-repository", "--absolute-git-dir", "--show-object-format")
    done = git_output(cwd, "rev-parse", *asked, ok=(0, 128))
    lines = os.fsdecode(done.stdout).split("\n")[:-1]
    if done.returncode or len(lines) != len(asked) or lines[0] != "true":
        return None
    folder = Path(lines[1])
    os.environ["GIT_DIR"] = lines[1]  # it may be relative to this folder
    head = git_output(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", ok=(0, 1, 128)).stdout
    return WorkTree(folder, folder, folder, True, None, lines[2]), head.decode().strip() or None


_COMMITS = 300  # of a branch; a longer one is not a single piece of work
_SECONDS = 0.15
_DEFAULTS = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master")
_IDENT = re.compile(rb"(.*>) \d+ [-+]\d+\n?", re.DOTALL)


def fork_refs(worktree: WorkTree, tip: str) -> list[str]:
    """The refs that the current branch forked from: its upstream, else the default branch; never itself, and none that
    points at `tip`. One git call."""
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


def changed_paths(worktree: WorkTree, tip: str, without: Sequence[str], *, first: int = 0) -> set[str]:
    """The paths changed by commits that `tip` reaches and `without` does not: at most 300 (or `first`) commits without
    merges, at most 0.15 s."""
    walk = TimedGit(
        worktree.top, "log", "--format=", "--name-only", "-z", "--no-merges", "--no-renames", "--no-ext-diff",
        "--no-color", f"--max-count={first or _COMMITS}", tip, *(f"^{name}" for name in without), "--",
        deadline=time.monotonic() + _SECONDS,
    )  # fmt: skip
    try:
        data, late = walk.read()
    except GitError:  # a broken ref, or a partial clone without its trees
        return set()
    names = data.split(b"\0")
    return {os.fsdecode(name.lstrip(b"\n")) for name in (names[:-1] if late else names) if name.strip(b"\n")}


def paths_by_commit(top: Path, tip: str, base: str, most: int) -> list[frozenset[str]] | None:
    """The paths of each commit, without merges, that `tip` reaches and `base` does not; None if there are more than
    `most`, or if it takes longer than 0.15 s."""
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
    """The paths changed on the current branch up to the commit `tip`; empty on the default branch without upstream."""
    without = fork_refs(worktree, tip)
    return frozenset(changed_paths(worktree, tip, without)) if without else frozenset()


def amended_parents(worktree: WorkTree, head: str) -> tuple[str, ...] | None:
    """The parents of HEAD if we run as a hook of `git commit --amend`, else None.

    git does not tell its hooks that it amends, but sets GIT_AUTHOR_DATE, and an amended commit keeps its author date.
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
    """Whether a date in git's format, "@1700000000 +0100", is that of a new commit; it may be either within a second or
    two of the last commit."""
    seconds = date.removeprefix("@").split(" ")[0]
    return seconds.isdecimal() and int(seconds) >= int(time.time()) - 2


def author_ident(worktree: WorkTree) -> bytes:
    """The author of an uncommitted change as "Name <mail>", from the environment of a hook or from git; b"" if
    unknown."""
    name, mail = os.environ.get("GIT_AUTHOR_NAME"), os.environ.get("GIT_AUTHOR_EMAIL")
    if name and mail:
        return os.fsencode(f"{name} <{mail}>")
    done = git_output(worktree.top, "var", "GIT_AUTHOR_IDENT", ok=(0, 1, 128))
    found = _IDENT.fullmatch(done.stdout) if done.returncode == 0 else None
    return found[1] if found else b""


_LISTED = 500  # commits of a range whose messages are read


class Comparison(NamedTuple):
    """The arguments for `git diff`, and what is known of the change except its files.

    `parents` are the further parents of a merge: a file that equals one of theirs was not edited in the merge.
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


def compare(worktree: WorkTree, head: str | None, selector: ChangeSelector, *, bare: bool) -> Comparison:
    """Resolve `selector` in this repository; `head` is the commit at HEAD, None before the first one.

    Raises UsageError for an unknown revision.
    """
    if selector.how in ("staged", "worktree"):
        if bare:
            raise UsageError(f"{worktree.git_dir} is a bare repository; use a range or --commit REV")
        return _uncommitted(worktree, head, staged=selector.how == "staged")
    if head is None and selector.how == "base":
        raise UsageError("there is no commit yet to compare with a base")
    if selector.how == "commit":
        return _commit(worktree, selector.value)
    if selector.how == "base":
        return _range(worktree, selector.value, "HEAD", f"{selector.value}...HEAD")
    old, dots, new = (
        selector.value.partition("...") if "..." in selector.value else selector.value.partition("..")
    )
    if not dots:
        raise UsageError(
            f"{selector.value} is not a range; use {selector.value}..HEAD, --base {selector.value} "
            f"or --commit {selector.value}"
        )
    return _range(worktree, old or "HEAD", new or "HEAD", selector.value)


def _uncommitted(worktree: WorkTree, head: str | None, *, staged: bool) -> Comparison:
    if head is None:
        if not staged:
            raise UsageError("there is no commit yet to compare the work tree with; stage the files instead")
        return Comparison("staged", "the staged change", ("--cached",), "", author=author_ident(worktree))
    author = author_ident(worktree)
    kind: Kind = "staged" if staged else "worktree"
    title = "the staged change" if staged else "the changes of the work tree"
    arguments = ("--cached", head) if staged else (head,)
    merged = _merged(worktree)
    before = amended_parents(worktree, head) if staged and not merged else None
    if before is not None and (before or head not in _cut_off(worktree)):
        base, *others = (*before, "")[: max(1, len(before))]
        both = {path for tip in others for path in _both_sides(worktree, base, tip)}
        return Comparison(
            kind, f"{title} (amends {head[:10]})", ("--cached", base or _empty_tree(worktree)), base, "", "",
            (earlier_on_branch(worktree, base) if base else frozenset()) | both, author, tuple(others),
        )  # fmt: skip
    found = Comparison(kind, title, arguments, head, earlier=earlier_on_branch(worktree, head), author=author)
    if not merged:
        return found
    both = {path for tip in merged for path in _both_sides(worktree, head, tip)}
    return found._replace(title=f"{title} (a merge)", parents=merged, earlier=found.earlier | both)


def _merged(worktree: WorkTree) -> tuple[str, ...]:
    """The commits of a merge in progress."""
    try:
        return tuple((worktree.git_dir / "MERGE_HEAD").read_text().split())
    except OSError:
        return ()


def _cut_off(worktree: WorkTree) -> set[str]:
    """The commits whose parents a shallow clone lacks."""
    try:
        return set((worktree.common_dir / "shallow").read_text().split())
    except OSError:
        return set()


def _both_sides(worktree: WorkTree, one: str, other: str) -> set[str]:
    """The paths that either side of a merge changed since they forked."""
    return changed_paths(worktree, one, (other,)) | changed_paths(worktree, other, (one,))


def _commit(worktree: WorkTree, name: str) -> Comparison:
    commit = resolve(worktree, name)
    out = git(
        worktree.top, "log", "-1", "--no-mailmap", "--encoding=UTF-8", "--format=%P%x00%an <%ae>%x00%h %s%x00%B",
        commit, "--", env=OFFLINE,
    )  # fmt: skip
    parents, author, title, message = out.split(b"\0", 3)
    base, *others = os.fsdecode(parents).split() or [""]
    if not base and commit in _cut_off(worktree):
        raise UsageError(f"the clone is shallow and lacks the parent of {name}; run `git fetch --deepen=1`")
    earlier: frozenset[str] = frozenset()
    if base:
        earlier = earlier_on_branch(worktree, base)
    earlier |= {path for other in others for path in _both_sides(worktree, base, other)}
    return Comparison(
        "commit", f"commit {title.decode(errors='replace')}", (base or _empty_tree(worktree), commit), base, commit,
        message.decode(errors="replace"), earlier, author, tuple(others),
    )  # fmt: skip


def _range(worktree: WorkTree, old: str, new: str, title: str) -> Comparison:
    """Compare `new` with its merge base with `old`."""
    before, head = resolve(worktree, old), resolve(worktree, new)
    done = git_output(worktree.top, "merge-base", before, head, env=OFFLINE, ok=(0, 1, 128))
    base = done.stdout.decode().strip()
    if not base:
        shallow = (worktree.common_dir / "shallow").exists()
        raise UsageError(
            f"{old} and {new} have no common ancestor"
            + ("; the clone is shallow, so run `git fetch --deepen=200`" if shallow else "")
        )
    out = git(
        worktree.top, "log", "-z", "--no-mailmap", "--encoding=UTF-8", f"--max-count={_LISTED}",
        "--format=%an <%ae>%n%B", head, f"^{base}", "--", env=OFFLINE,
    )  # fmt: skip
    commits = [entry.partition(b"\n") for entry in out.split(b"\0") if entry]
    count = f"{len(commits):,}{'+' * (len(commits) == _LISTED)} commit{'s' * (len(commits) != 1)}"
    message = "\n".join(text.decode(errors="replace") for _, _, text in commits)
    return Comparison(
        "range", f"{title} ({count})", (base, head), base, head, message,
        frozenset(changed_paths(worktree, head, (base,))), commits[0][0] if commits else b"",
    )  # fmt: skip


def resolve(worktree: WorkTree, name: str) -> str:
    """The full id of the commit that `name` resolves to. Raises UsageError if there is none."""
    done = git_output(
        worktree.top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}",
        env=OFFLINE, ok=(0, 1, 128),
    )  # fmt: skip
    if done.returncode:
        raise UsageError(f"there is no commit {name}: name a commit, a branch or a tag")
    return done.stdout.decode().strip()


def _empty_tree(worktree: WorkTree) -> str:
    return git(worktree.top, "hash-object", "-t", "tree", "--stdin").decode().strip()
