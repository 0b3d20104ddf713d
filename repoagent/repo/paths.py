"""Which paths may name a file of a work tree, and which of them git tracks or ignores."""

from __future__ import annotations

import os
from collections.abc import Collection

from repoagent.errors import Refused
from repoagent.repo.run import git, git_output
from repoagent.repo.worktree import WorkTree

# Code points that HFS+ leaves out when it compares names.
_HFS_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_PATHS_A_CALL = 500


def check_path(path: str) -> None:
    """Raise Refused unless `path` may name a file of a work tree: relative, no `..`, nothing that is `.git`.

    Names that other file systems take for `.git` are refused too, as git does (core.protectHFS, protectNTFS).
    """
    if not path or path.startswith("/") or "\0" in path or _unnameable(path):
        raise Refused(f"{path!r} is no path inside the work tree: give one relative to its top")
    for name in path.split("/"):
        if name in ("", ".", ".."):
            raise Refused(f"{path} is not a plain path inside the work tree: write it without {name!r}")
        for piece in name.split("\\"):
            plain = piece.translate(_HFS_IGNORED).partition(":")[0].rstrip(" .").lower()
            if plain in (".git", "git~1"):
                raise Refused(f"{path} is in a git directory, and repoagent never reads or writes there")


def _unnameable(path: str) -> bool:
    """Whether it holds half of a UTF-16 pair, which stands for no byte."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return True
    return False


def is_ignored(worktree: WorkTree, paths: Collection[str]) -> set[str]:
    """Those of `paths` that git's ignore rules name, existing or not; tracked files are never among them.

    One git call. Raises GitError for a path behind a symbolic link or in a submodule.
    """
    if not paths:
        return set()
    # "./" keeps a name like ":(top)x" from being taken for a pathspec
    given = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
    found = git_output(worktree.top, "check-ignore", "-z", "--stdin", stdin=given, ok=(0, 1)).stdout
    return {os.fsdecode(path).removeprefix("./") for path in found.split(b"\0") if path}


def is_tracked(worktree: WorkTree, paths: Collection[str]) -> set[str]:
    """Those of `paths` that are in the index (a folder is not, whatever is in it). One git call per 500
    paths."""
    wanted = list(paths)
    found: set[str] = set()
    for start in range(0, len(wanted), _PATHS_A_CALL):
        some = wanted[start : start + _PATHS_A_CALL]
        listed = git(worktree.top, "ls-files", "-z", "--cached", "--", *some)
        found.update(os.fsdecode(path) for path in listed.split(b"\0"))
    return found.intersection(wanted)
