"""Ask git about a file: its versions, its earlier and later names, and whether history shows it as one file.

Nothing is fetched: content that a partial clone lacks counts as missing.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence

from repoagent.git.process import OFFLINE, GitError, git
from repoagent.git.worktree import WorkTree

_DEPTH = 500  # commits
_RENAMES = ("--diff-filter=R", "--raw", "--no-abbrev", "-z")


def _ask(worktree: WorkTree, *arguments: str, stdin: bytes | None = None) -> bytes | None:
    """git's output; None if it fails: HEAD is unborn, an object is missing."""
    try:
        return git(worktree.top, *arguments, stdin=stdin, env=OFFLINE)
    except GitError:
        return None


def _ask_renames(
    worktree: WorkTree, command: str, *arguments: str, similar: Sequence[str] = ("-M",)
) -> bytes | None:
    """Like `_ask`, with renames detected; only exact ones if a partial clone lacks contents to compare."""
    listed = _ask(worktree, command, *similar, *arguments)
    return _ask(worktree, command, "-M100%", *arguments) if listed is None else listed


def _names(listed: bytes | None) -> Iterator[str]:
    return (os.fsdecode(name) for name in (listed or b"").split(b"\0") if name)


def blob_at(worktree: WorkTree, name: str) -> bytes | None:
    """The content of the blob `name`: HEAD:PATH, or :0:PATH in the index; None if there is none."""
    return _ask(worktree, "cat-file", "blob", name)


def as_in_work_tree(worktree: WorkTree, blob: str, path: str) -> bytes | None:
    """The content of `blob` as a checkout would write it to `path`; None if it is missing."""
    return _ask(worktree, "cat-file", "--filters", f"--path={path}", blob)


def _ids_at(worktree: WorkTree, path: str, commits: Collection[str]) -> list[bytes]:
    """The ids that `commits` have at `path`, also of missing objects; none if one of the commits has no such path."""
    return (_ask(worktree, "rev-parse", *(f"{commit}:{path}" for commit in commits)) or b"").split()


def former_names(worktree: WorkTree, path: str, commits: set[str | None]) -> Iterator[tuple[str, str]]:
    """The earlier names of `path` in the index and at most _DEPTH commits, newest first, each with its last blob.

    `commits` are those at which files that may be renamed to it were last seen (None: unknown). If all contain
    `path`, history is not read.
    """
    yield from _followed(path, _ask_renames(worktree, "diff-index", "--cached", *_RENAMES, "HEAD", "--"))
    since = {commit for commit in commits if commit is not None}
    if len(since) == len(commits) and _ids_at(worktree, path, since):
        return
    oldest = (_ask(worktree, "rev-list", "-1", f"--skip={_DEPTH}", "HEAD", "--") or b"").decode().strip()
    bounds = [f"^{commit}" for commit in (oldest, *(since if len(commits) == 1 else ())) if commit]
    yield from _followed(path, _ask_renames(worktree, "log", *_RENAMES, "--format=", "HEAD", *bounds, "--"))


def _followed(path: str, raw: bytes | None) -> Iterator[tuple[str, str]]:
    """Follow renames back in git's raw output: `:MODE MODE BLOB BLOB R<score>`, old and new name for each."""
    fields = list(_names(raw))
    before: dict[str, tuple[str, str]] = {}
    for head, old, new in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
        before.setdefault(new, (old, head.split()[2]))
    while path in before:
        path, blob = before.pop(path)
        yield path, blob


def same_through_history(worktree: WorkTree, path: str, data: bytes, since: str) -> bool:
    """Whether `path` has `data` at HEAD and was neither added, removed nor renamed after commit `since`."""
    blob = _ask(worktree, "hash-object", "--stdin", "--path", path, stdin=data)
    if blob is None or _ids_at(worktree, path, (since, "HEAD"))[1:] != [blob.strip()]:
        return False
    log = ("log", "-1", "--format=%H", "--no-renames", "--diff-filter=AD", f"{since}...HEAD", "--", path)
    return _ask(worktree, *log) == b"" and all(old != path for old, _ in renames_since(worktree, since))


def changed_files(worktree: WorkTree) -> Iterator[str]:
    """The files that differ from HEAD, and untracked files that are not ignored."""
    yield from _names(_ask(worktree, "ls-files", "-o", "--exclude-standard", "-z"))
    changed = _ask(worktree, "diff-index", "--no-renames", "--name-only", "-z", "HEAD", "--")
    if changed is None:  # an unborn HEAD: all of the index is new
        changed = _ask(worktree, "ls-files", "-z")
    yield from _names(changed)


def renames_since(worktree: WorkTree, commit: str) -> list[tuple[str, str]]:
    """(old, new) for each tracked file renamed since `commit`, also if another file is at the old path."""
    listing = ("diff-index", "--name-status", "-z", commit, "--")
    fields = _names(_ask_renames(worktree, *listing, similar=("-B", "-M")))
    changed = [(letter, next(fields), next(fields) if letter[0] in "RC" else "") for letter in fields]
    rewritten = {old for letter, old, _ in changed if letter.startswith("M") and letter != "M"}
    return [
        (old, new)
        for letter, old, new in changed
        if letter[0] == "R" or (letter[0] == "C" and old in rewritten)
    ]
