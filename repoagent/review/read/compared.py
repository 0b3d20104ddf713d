"""What has to be compared with what, for each way to say which change is meant."""

from __future__ import annotations

import os
from typing import NamedTuple

from repoagent.errors import UsageError
from repoagent.repo.run import OFFLINE, git, git_output
from repoagent.repo.worktree import WorkTree
from repoagent.review.change import Kind
from repoagent.review.read.branch import amended, earlier_on_branch, touched, who_commits
from repoagent.review.read.wanted import Wanted

_LISTED = 500  # commits of a range whose messages are read


class Compared(NamedTuple):
    """What to give `git diff`, and what is known of the change beside its files.

    `parents` are further commits that a merge is made of: a file that is the same in one of them is no change of the
    one who merges. `commits` is how many a range has.
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


def compared(worktree: WorkTree, head: str | None, wanted: Wanted, *, bare: bool) -> Compared:
    """What `wanted` means in this repository; `head` is the commit of HEAD, None before the first one.

    Raises UsageError for what does not exist there.
    """
    if wanted.how in ("staged", "worktree"):
        if bare:
            raise UsageError(
                f"{worktree.git_dir} is a bare repository, where nothing is staged: name a range, or --commit REV"
            )
        return _uncommitted(worktree, head, staged=wanted.how == "staged")
    if head is None and wanted.how == "base":
        raise UsageError("there is no commit yet: nothing can be compared with a base")
    if wanted.how == "commit":
        return _commit(worktree, wanted.value)
    if wanted.how == "base":
        return _range(worktree, wanted.value, "HEAD", f"{wanted.value}...HEAD")
    old, dots, new = wanted.value.partition("...") if "..." in wanted.value else wanted.value.partition("..")
    if not dots:
        raise UsageError(
            f"{wanted.value} is no range: say {wanted.value}..HEAD, --base {wanted.value} or --commit {wanted.value}"
        )
    return _range(worktree, old or "HEAD", new or "HEAD", wanted.value)


def _uncommitted(worktree: WorkTree, head: str | None, *, staged: bool) -> Compared:
    if head is None:
        title = "the staged change" if staged else "the work tree"
        if not staged:
            raise UsageError("there is no commit yet to compare the work tree with: stage the files")
        return Compared("staged", title, ("--cached",), "", author=who_commits(worktree))
    author = who_commits(worktree)
    kind: Kind = "staged" if staged else "worktree"
    title = "the staged change" if staged else "the changes of the work tree"
    arguments = ("--cached", head) if staged else (head,)
    merged = _merged(worktree)
    before = amended(worktree, head) if staged and not merged else None
    if before is not None and (before or head not in _cut_off(worktree)):
        base, *others = (*before, "")[: max(1, len(before))]
        both = {path for tip in others for path in _both_sides(worktree, base, tip)}
        return Compared(
            kind, f"{title} (amends {head[:10]})", ("--cached", base or _empty_tree(worktree)), base, "", "",
            (earlier_on_branch(worktree, base) if base else frozenset()) | both, author, tuple(others),
        )  # fmt: skip
    found = Compared(kind, title, arguments, head, earlier=earlier_on_branch(worktree, head), author=author)
    if not merged:
        return found
    both = {path for tip in merged for path in _both_sides(worktree, head, tip)}
    return found._replace(title=f"{title} (a merge)", parents=merged, earlier=found.earlier | both)


def _merged(worktree: WorkTree) -> tuple[str, ...]:
    """The commits that are being merged just now."""
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
    """All that either side of a merge changed since they parted."""
    return touched(worktree, one, (other,)) | touched(worktree, other, (one,))


def _commit(worktree: WorkTree, name: str) -> Compared:
    commit = resolve(worktree, name)
    out = git(
        worktree.top, "log", "-1", "--no-mailmap", "--encoding=UTF-8", "--format=%P%x00%an <%ae>%x00%h %s%x00%B",
        commit, "--", env=OFFLINE,
    )  # fmt: skip
    parents, author, title, message = out.split(b"\0", 3)
    base, *others = os.fsdecode(parents).split() or [""]
    if not base and commit in _cut_off(worktree):
        raise UsageError(
            f"the clone is shallow and has no parent of {name} to compare it with: git fetch --deepen=1 brings it"
        )
    earlier: frozenset[str] = frozenset()
    if base:
        earlier = earlier_on_branch(worktree, base)
    earlier |= {path for other in others for path in _both_sides(worktree, base, other)}
    return Compared(
        "commit", f"commit {title.decode(errors='replace')}", (base or _empty_tree(worktree), commit), base, commit,
        message.decode(errors="replace"), earlier, author, tuple(others),
    )  # fmt: skip


def _range(worktree: WorkTree, old: str, new: str, title: str) -> Compared:
    """What `new` has that `old` has not: compared with where they parted."""
    before, head = resolve(worktree, old), resolve(worktree, new)
    done = git_output(worktree.top, "merge-base", before, head, env=OFFLINE, ok=(0, 1, 128))
    base = done.stdout.decode().strip()
    if not base:
        shallow = (worktree.common_dir / "shallow").exists()
        raise UsageError(
            f"{old} and {new} have no commit in common"
            + (
                ": the clone is shallow, so fetch more of the history (git fetch --deepen=200)"
                if shallow
                else ""
            )
        )
    out = git(
        worktree.top, "log", "-z", "--no-mailmap", "--encoding=UTF-8", f"--max-count={_LISTED}",
        "--format=%an <%ae>%n%B", head, f"^{base}", "--", env=OFFLINE,
    )  # fmt: skip
    commits = [entry.partition(b"\n") for entry in out.split(b"\0") if entry]
    count = f"{len(commits):,}{'+' * (len(commits) == _LISTED)} commit{'s' * (len(commits) != 1)}"
    message = "\n".join(text.decode(errors="replace") for _, _, text in commits)
    return Compared(
        "range", f"{title} ({count})", (base, head), base, head, message,
        frozenset(touched(worktree, head, (base,))), commits[0][0] if commits else b"",
    )  # fmt: skip


def resolve(worktree: WorkTree, name: str) -> str:
    """The full id of the commit that `name` means. Raises UsageError where there is none."""
    done = git_output(
        worktree.top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}",
        env=OFFLINE, ok=(0, 1, 128),
    )  # fmt: skip
    if done.returncode:
        raise UsageError(f"there is no commit {name}: name a commit, a branch or a tag")
    return done.stdout.decode().strip()


def _empty_tree(worktree: WorkTree) -> str:
    return git(worktree.top, "hash-object", "-t", "tree", "--stdin").decode().strip()
