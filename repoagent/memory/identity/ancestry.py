"""What git knows of a file's descent: asked only where path, inode and content leave the question open."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator

from repoagent.repo.run import GitError, git
from repoagent.repo.worktree import WorkTree

_DEPTH = 500  # commits
_RENAMES = ("-M", "--diff-filter=R", "--raw", "--no-abbrev", "-z")
IsGone = Callable[
    [str, str], bool
]  # whether a path, and the blob that git had there, are those of a file that is gone
_Rename = tuple[str, str, str]  # the blob before, the old name, the new one


def renamed_from(
    worktree: WorkTree, path: str, is_gone: IsGone, commits: Collection[str | None]
) -> str | None:
    """Which path became `path` by renames, in the index or in a commit, and `is_gone`; None for none.

    `commits` are those that the gone files were last seen at, None for one that is not known; history is read, at most
    _DEPTH commits of it, only where `path` is younger than one of these.
    """
    found = _follow(path, is_gone, _in_index(worktree))
    if found is not None:
        return found
    known = {commit for commit in commits if commit}
    unknown = None in commits
    limit = _limit(worktree) if unknown else None
    asked = {*known, limit} if limit else known
    if (limit or not unknown) and not _lacking(worktree, path, asked):
        return None
    since = next(iter(known)) if len(known) == 1 and not unknown else None
    return _follow(path, is_gone, _in_history(worktree, since, _limit(worktree) if limit is None else limit))


def in_head(worktree: WorkTree, path: str) -> bytes | None:
    """What HEAD has at `path`; None for nothing."""
    return _content(worktree, f"HEAD:{path}")


def in_index(worktree: WorkTree, path: str) -> bytes | None:
    """What the index has at `path`; None for nothing."""
    return _content(worktree, f":0:{path}")


def as_in_work_tree(worktree: WorkTree, blob: str, path: str) -> bytes | None:
    """The content of `blob` as a checkout would write it to `path`; None for one that is gone."""
    try:
        return git(worktree.top, "cat-file", "--filters", f"--path={path}", blob)
    except GitError:
        return None


def _content(worktree: WorkTree, name: str) -> bytes | None:
    try:
        return git(worktree.top, "cat-file", "blob", name)
    except GitError:
        return None


def _follow(path: str, is_gone: IsGone, renames: Iterator[_Rename]) -> str | None:
    """From `path` back through the renames, newest first, to the first name that `is_gone`."""
    before: dict[str, tuple[str, str]] = {}
    for blob, old, new in renames:
        before.setdefault(new, (blob, old))
    blob, name = before.pop(path, ("", ""))
    while name and not is_gone(name, blob):  # renamed more than once
        blob, name = before.pop(name, ("", ""))
    return name or None


def _lacking(worktree: WorkTree, path: str, commits: Collection[str]) -> set[str]:
    """Those of `commits` that do not have `path` (or are gone): only since these can it be a rename's new
    name."""
    if not commits:
        return set()
    asked = sorted(commits)
    names = b"".join(os.fsencode(f"{commit}:{path}") + b"\n" for commit in asked)
    answers = git(worktree.top, "cat-file", "--batch-check", stdin=names).splitlines()
    if len(answers) != len(asked):  # a line break in the path
        return set(asked)
    return {commit for commit, answer in zip(asked, answers, strict=True) if answer.endswith(b" missing")}


def same_through_history(worktree: WorkTree, path: str, data: bytes, since: str) -> bool:
    """Whether `path` is one file in git's eyes from commit `since` to HEAD: there in both, never removed
    nor added on the way between them, its text not gone to another name, and `data` is what HEAD has."""
    try:
        names = b"".join(os.fsencode(f"{commit}:{path}") + b"\n" for commit in (since, "HEAD"))
        before, now = git(worktree.top, "cat-file", "--batch-check", stdin=names).splitlines()
        blob = git(worktree.top, "hash-object", "--stdin", "--path", path, stdin=data).strip()
        if b" blob " not in before or not now.startswith(blob + b" "):
            return False
        log = ("log", "-1", "--format=%H", "--no-renames", "--diff-filter=AD", f"{since}...HEAD", "--", path)
        if git(worktree.top, *log):
            return False
    except (GitError, ValueError):  # an unborn HEAD, a commit that is gone; a path with a line break
        return False
    return all(old != path for old, _ in renames_since(worktree, since))


def changed_files(worktree: WorkTree) -> Iterator[str]:
    """The files that are not as HEAD has them, or that it does not have (ignored ones left out)."""
    yield from _names(git(worktree.top, "ls-files", "-o", "--exclude-standard", "-z"))
    try:
        yield from _names(git(worktree.top, "diff-index", "--no-renames", "--name-only", "-z", "HEAD", "--"))
    except GitError:  # an unborn HEAD: all of the index is new
        yield from _names(git(worktree.top, "ls-files", "-z"))


def _names(out: bytes) -> Iterator[str]:
    return (os.fsdecode(name) for name in out.split(b"\0") if name)


def renames_since(worktree: WorkTree, commit: str) -> list[tuple[str, str]]:
    """(old, new) of what has another name in the work tree than in `commit`, also where another text has the old name
    by now: to git that is a change of the old name, marked as a rewriting, and a copy. Untracked files are not seen."""
    tree = ("diff-index", "-B", "-M", "--name-status", "-z", commit, "--")
    try:
        fields = iter([os.fsdecode(part) for part in git(worktree.top, *tree).split(b"\0") if part])
    except GitError:  # a commit that is gone
        return []
    changed = [(letter, next(fields), next(fields) if letter[0] in "RC" else "") for letter in fields]
    rewritten = {old for letter, old, _ in changed if letter.startswith("M") and letter != "M"}
    return [
        (old, new)
        for letter, old, new in changed
        if letter[0] == "R" or (letter[0] == "C" and old in rewritten)
    ]


def _in_index(worktree: WorkTree) -> Iterator[_Rename]:
    try:
        return _renames(git(worktree.top, "diff-index", "--cached", *_RENAMES, "HEAD", "--"))
    except GitError:  # an unborn HEAD has no renames
        return iter(())


def _limit(worktree: WorkTree) -> str:
    """The commit that reading history ends at; "" where there are not so many."""
    try:
        return git(worktree.top, "rev-list", "-1", f"--skip={_DEPTH}", "HEAD", "--").decode().strip()
    except GitError:  # an unborn HEAD
        return ""


def _in_history(worktree: WorkTree, since: str | None, limit: str) -> Iterator[_Rename]:
    """The renames of at most _DEPTH commits. Not by path: git can't pair names that it is not shown."""
    try:
        bounds = [f"^{commit}" for commit in (since, limit) if commit]
        return _renames(git(worktree.top, "log", *_RENAMES, "--format=", "HEAD", *bounds, "--"))
    except GitError:  # an unborn HEAD, or `since` is gone
        return iter(())


def _renames(out: bytes) -> Iterator[_Rename]:
    """Of each `:MODE MODE BLOB BLOB R<score> NUL old NUL new NUL`."""
    fields = [os.fsdecode(part) for part in out.split(b"\0") if part]
    for what, old, new in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
        yield what.split()[2], old, new
