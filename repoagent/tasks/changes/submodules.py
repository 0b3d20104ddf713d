"""What a command changed in submodules: reported, but never part of the commit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.git.process import GitError, git
from repoagent.git.worktree import WorkTree
from repoagent.tasks.changes.detect import named

_GITLINK = b"160000 "
_OTHERS = {
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
}  # where they are set, they are of one repository
Signature = tuple[int, ...]


@dataclass(frozen=True)
class Inside:
    """A submodule: its commit, and the files with uncommitted work in it."""

    head: bytes
    files: Mapping[str, Signature | None]


def checked_out(worktree: WorkTree) -> tuple[str, ...]:
    """The paths of the submodules that are checked out. One call of git where there are any."""
    if _OTHERS & os.environ.keys() or not (worktree.top / ".gitmodules").exists():
        return ()
    entries = git(worktree.top, "ls-files", "-z", "--stage").split(b"\0")
    paths = [os.fsdecode(entry.partition(b"\t")[2]) for entry in entries if entry.startswith(_GITLINK)]
    return tuple(path for path in paths if (worktree.top / path / ".git").exists())


def look_inside(worktree: WorkTree, paths: tuple[str, ...]) -> dict[str, Inside]:
    """Each of these submodules as it is now; one in which git can't say is left out. One call of git for each."""
    found = {}
    for path in paths:
        try:
            found[path] = _inside(worktree.top / path)
        except (GitError, OSError):  # its .git is gone, or none
            continue
    return found


def told(was: Mapping[str, Inside], now: Mapping[str, Inside]) -> list[tuple[str, list[str]]]:
    """The submodules that are another than they were: a phrase for each, and the paths of the files from the top."""
    found: list[tuple[str, list[str]]] = []
    for path in sorted({*was, *now}):
        before, after = was.get(path), now.get(path)
        if before == after:
            continue
        if before is None or after is None:
            found.append(
                (f"{named(path)} (git {'can no longer' if after is None else 'could not'} read it)", [])
            )
            continue
        names = sorted({*before.files, *after.files})
        files = [f"{path}/{name}" for name in names if before.files.get(name, 0) != after.files.get(name, 0)]
        found.append(
            (f"{named(path)} (now at another commit)" if before.head != after.head else named(path), files)
        )
    return found


def git_of(folder: Path) -> tuple[str, str]:
    """The options with which git is asked of the submodule in `folder`, whatever the environment says."""
    return f"--git-dir={folder / '.git'}", f"--work-tree={folder}"


def _inside(folder: Path) -> Inside:
    out = git(
        folder, *git_of(folder), "status", "--porcelain=v2", "-z", "--branch",
        "--untracked-files=all", "--no-renames", "--no-ahead-behind",
        "--ignore-submodules=dirty",  # git would obey what stands in them, and a command may have written that
    )  # fmt: skip
    head, files = b"", {}
    for record in out.split(b"\0"):
        if record.startswith(b"# branch.oid "):
            head = record.rpartition(b" ")[2]
        elif record[:2] in {b"1 ", b"u "}:
            name = record.split(b" ", 8 if record[:1] == b"1" else 10)[-1]
            files[os.fsdecode(name)] = _signature(folder, name)
        elif record[:2] == b"? ":
            files[os.fsdecode(record[2:])] = _signature(folder, record[2:])
    return Inside(head, files)


def _signature(folder: Path, name: bytes) -> Signature | None:
    try:
        found = os.lstat(os.fsencode(folder) + b"/" + name)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, found.st_ctime_ns
