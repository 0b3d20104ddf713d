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
    """The work tree, the id of the commit at HEAD (None before the first one), and whether the repository is bare.
    GIT_DIR must name a bare repository; its git directory is the top. Raises UsageError as `open_worktree`."""
    try:
        return (*open_at_head(cwd), False)
    except UsageError:
        bare_repository = _open_bare(cwd) if "GIT_DIR" in os.environ else None
        if bare_repository is None:
            raise
        return (*bare_repository, True)


def _open_bare(cwd: Path) -> tuple[WorkTree, str | None] | None:
    options = ("--is-bare-repository", "--absolute-git-dir", "--show-object-format")
    result = git_output(cwd, "rev-parse", *options, ok=(0, 128))
    lines = os.fsdecode(result.stdout).split("\n")[:-1]
    if result.returncode or len(lines) != len(options) or lines[0] != "true":
        return None
    folder = Path(lines[1])
    os.environ["GIT_DIR"] = lines[1]  # it may be relative to this folder
    head = git_output(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", ok=(0, 1, 128)).stdout
    return WorkTree(folder, folder, folder, True, None, lines[2]), head.decode().strip() or None


def read_blob(top: Path, name: str) -> bytes | None:
    """The blob `name` (an id, or COMMIT:PATH); None if it is missing or a partial clone lacks it."""
    result = git_output(top, "cat-file", "blob", name, env=OFFLINE, ok=(0, 1, 128))
    return result.stdout if result.returncode == 0 else None


def resolve_commit(top: Path, name: str) -> str | None:
    """The full id of the commit that `name` resolves to; None for other objects and missing ones."""
    peeled = ("--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    result = git_output(top, "rev-parse", *peeled, env=OFFLINE, ok=(0, 1, 128))
    return result.stdout.decode().strip() or None if result.returncode == 0 else None


def merge_base(top: Path, *commits: str) -> str | None:
    """The merge base of the first commit with the others; None if there is none."""
    result = git_output(top, "merge-base", *commits, env=OFFLINE, ok=(0, 1, 128))
    return result.stdout.decode().strip() or None if result.returncode == 0 else None


_COMMITS = 300  # of a branch; a longer one is more than one piece of work
_SECONDS = 0.15
_DEFAULTS = ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master")
_IDENT = re.compile(rb"(.*>) \d+ [-+]\d+\n?", re.DOTALL)


def fork_refs(worktree: WorkTree, tip: str) -> list[str]:
    """The refs that the current branch forked from: its upstream, else the default branch; never the branch itself or a
    ref that points at `tip`. One git call."""
    branch = current_branch(worktree)
    current = [f"refs/heads/{branch}"] if branch else []
    form = "--format=%(refname) %(objectname) %(upstream) %(symref)"
    out = git(worktree.top, "for-each-ref", form, "--", *current, *_DEFAULTS)
    upstream, targets, oids = "", {}, {}
    for line in os.fsdecode(out).splitlines():
        name, oid, upstream_name, symbolic = line.split(" ")
        if current and name == current[0]:
            upstream = upstream_name
        targets[name] = symbolic or name
        oids[targets[name]] = oid
    defaults = [targets[name] for name in _DEFAULTS if name in targets]
    chosen = [upstream] if upstream else defaults[:1]
    return [name for name in chosen if name not in current and oids.get(name) != tip]


def _paths_of_commits(
    top: Path, tip: str, without: Sequence[str], most: int
) -> tuple[list[frozenset[str]], bool]:
    """The paths of each commit, without merges, that `tip` reaches and `without` does not, of at most `most` commits
    that git lists within 0.15 s; and whether time ran out. Raises GitError."""
    from repoagent.history.log import TimedGit

    data, late = TimedGit(
        top, "log", "--format=%x01", "--name-only", "-z", "--no-merges", "--no-renames", "--no-ext-diff", "--no-color",
        f"--max-count={most}", tip, *(f"^{name}" for name in without), "--", deadline=time.monotonic() + _SECONDS,
    ).read()  # fmt: skip
    names = [entry.split(b"\0") for entry in data.split(b"\x01")[1:]]
    if late and names:
        names[-1].pop()  # may be cut
    return [
        frozenset(os.fsdecode(name.lstrip(b"\n")) for name in entry if name.strip(b"\n")) for entry in names
    ], late


def changed_paths(top: Path, tip: str, without: Sequence[str]) -> frozenset[str]:
    """The paths changed by the commits that `tip` reaches and `without` does not: by the last 300 that git lists within
    0.15 s."""
    try:
        return frozenset().union(*_paths_of_commits(top, tip, without, _COMMITS)[0])
    except GitError:  # a broken ref, or a partial clone without its trees
        return frozenset()


def paths_by_commit(top: Path, tip: str, base: str, most: int) -> list[frozenset[str]] | None:
    """The paths of each commit that `tip` reaches and `base` does not; None if there are more than `most`, or if git
    takes too long."""
    try:
        commits, late = _paths_of_commits(top, tip, (base,), most + 1)
    except GitError:  # a partial clone lacks its trees
        return None
    return None if late or len(commits) > most else commits


def earlier_on_branch(worktree: WorkTree, tip: str) -> frozenset[str]:
    """The paths changed on the current branch up to the commit `tip`; empty on the default branch without upstream."""
    without = fork_refs(worktree, tip)
    return changed_paths(worktree.top, tip, without) if without else frozenset()


def amended_parents(worktree: WorkTree, head: str) -> tuple[str, ...] | None:
    """The parents of HEAD if we run as a hook of `git commit --amend`, else None.

    Hooks cannot tell directly, but git sets GIT_AUTHOR_DATE for them, and an amended commit keeps its author date.
    """
    date = os.environ.get("GIT_AUTHOR_DATE", "")
    if "GIT_INDEX_FILE" not in os.environ or not date or _is_current(date):
        return None
    result = git_output(
        worktree.top, "log", "-1", "--no-mailmap", "--date=raw", "--format=%ad%n%ae%n%P", head, "--", env=OFFLINE
    )  # fmt: skip
    when, mail, parents = os.fsdecode(result.stdout).split("\n")[:3]
    if when != date.removeprefix("@") or mail != os.environ.get("GIT_AUTHOR_EMAIL", mail):
        return None
    return tuple(parents.split())


def _is_current(date: str) -> bool:
    """Whether a date in git's format, "@1700000000 +0100", is that of a new commit: within two seconds of now. Cannot
    distinguish an amended commit that recent."""
    seconds = date.removeprefix("@").split(" ")[0]
    return seconds.isdecimal() and int(seconds) >= int(time.time()) - 2


def author_ident(worktree: WorkTree) -> bytes:
    """The author of an uncommitted change as "Name <mail>", from the environment of a hook or from git; b"" if
    unknown."""
    name, mail = os.environ.get("GIT_AUTHOR_NAME"), os.environ.get("GIT_AUTHOR_EMAIL")
    if name and mail:
        return os.fsencode(f"{name} <{mail}>")
    result = git_output(worktree.top, "var", "GIT_AUTHOR_IDENT", ok=(0, 1, 128))
    match = _IDENT.fullmatch(result.stdout) if result.returncode == 0 else None
    return match[1] if match else b""


_LISTED = 500  # commits of a range whose messages are read


class Comparison(NamedTuple):
    """The arguments for `git diff`, and the properties of the change apart from its files.

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
    kind: Kind = "staged" if staged else "worktree"
    title = "the staged change" if staged else "the changes of the work tree"
    cached = ("--cached",) if staged else ()
    parents, base = _ids_in(worktree.git_dir / "MERGE_HEAD"), head
    amended = amended_parents(worktree, head) if staged and not parents else None
    if parents:
        title += " (a merge)"
    elif amended is not None and (amended or head not in _ids_in(worktree.common_dir / "shallow")):
        base, *other_parents = amended or ("",)
        title, parents = f"{title} (amends {head[:10]})", tuple(other_parents)
    earlier = earlier_on_branch(worktree, base) if base else frozenset()
    return Comparison(
        kind, title, (*cached, base or _empty_tree(worktree)), base,
        earlier=earlier | _both_sides(worktree, base, parents), author=author_ident(worktree), parents=parents,
    )  # fmt: skip


def _ids_in(path: Path) -> tuple[str, ...]:
    """The ids in a file of the git directory, such as MERGE_HEAD and `shallow`; none if it does not exist."""
    try:
        return tuple(path.read_text().split())
    except OSError:
        return ()


def _both_sides(worktree: WorkTree, base: str, other_parents: Sequence[str]) -> frozenset[str]:
    """The paths that either side of a merge of `base` and `others` changed since they forked."""
    pairs = [pair for parent in other_parents for pair in ((base, parent), (parent, base))]
    return frozenset().union(*(changed_paths(worktree.top, tip, (parent,)) for tip, parent in pairs))


def _commit(worktree: WorkTree, name: str) -> Comparison:
    commit = _resolve(worktree, name)
    out = git(
        worktree.top, "log", "-1", "--no-mailmap", "--encoding=UTF-8", "--format=%P%x00%an <%ae>%x00%h %s%x00%B",
        commit, "--", env=OFFLINE,
    )  # fmt: skip
    parents, author, title, message = out.split(b"\0", 3)
    base, *other_parents = os.fsdecode(parents).split() or [""]
    if not base and commit in _ids_in(worktree.common_dir / "shallow"):
        raise UsageError(f"the clone is shallow and lacks the parent of {name}; run `git fetch --deepen=1`")
    earlier = earlier_on_branch(worktree, base) if base else frozenset()
    return Comparison(
        "commit", f"commit {title.decode(errors='replace')}", (base or _empty_tree(worktree), commit), base, commit,
        message.decode(errors="replace"), earlier | _both_sides(worktree, base, other_parents), author,
        tuple(other_parents),
    )  # fmt: skip


def _range(worktree: WorkTree, old: str, new: str, title: str) -> Comparison:
    """Compare `new` with its merge base with `old`."""
    before, head = _resolve(worktree, old), _resolve(worktree, new)
    base = merge_base(worktree.top, before, head)
    if base is None:
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
        changed_paths(worktree.top, head, (base,)), commits[0][0] if commits else b"",
    )  # fmt: skip


def _resolve(worktree: WorkTree, name: str) -> str:
    """As `resolve_commit`, but raise UsageError if there is none."""
    commit = resolve_commit(worktree.top, name)
    if commit is None:
        raise UsageError(f"there is no commit {name}: name a commit, a branch or a tag")
    return commit


def _empty_tree(worktree: WorkTree) -> str:
    return git(worktree.top, "hash-object", "-t", "tree", "--stdin").decode().strip()
