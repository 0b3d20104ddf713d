"""Snapshots of the work tree, including submodules, and the differences between two of them.

File names in text for a model are quoted, so that a file name cannot pass for an instruction.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import Content, FileChange, blob_hash, look
from repoagent.git.index import Status, read_status_and_untracked
from repoagent.git.objects import from_blob
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree
from repoagent.tasks.changes.change_set import ChangeSet

LARGEST = 4 * 1024 * 1024  # bytes of a followed file
MOST = 2_000  # uncommitted files whose bytes are read
TOTAL = 256 * 1024 * 1024  # bytes of all followed files, which are in memory
NAMED = 20  # file names in a sentence

Signature = tuple[int, ...]


@dataclass(frozen=True)
class FileState:
    """An uncommitted or untracked path: its signature, and its bytes if it is followed."""

    signature: Signature | None
    content: Content | None
    tracked: bool
    followed: bool = True


ABSENT = FileState(None, None, True)


@dataclass(frozen=True)
class Snapshot:
    """The uncommitted files of a work tree, the entries of the change set, and the repositories in untracked
    folders."""

    status: Status
    files: dict[str, FileState]
    entries: frozenset[FileChange]
    repositories: tuple[str, ...]

    def is_followed(self, path: str) -> bool:
        return self.files.get(path, ABSENT).followed


def take_snapshot(worktree: WorkTree, change_set: ChangeSet, known: Mapping[str, FileState]) -> Snapshot:
    """Read all uncommitted and untracked paths. Files of the previous snapshot, `known`, are not read again if their
    signature is the same."""
    status, untracked = read_status_and_untracked(worktree)
    changed = {path: entry for path, entry in status.changed.items() if not entry.submodule}
    tracked = sorted(changed, key=lambda path: not changed[path].unstaged)  # unstaged files first
    files: dict[str, FileState] = {}
    remaining = TOTAL
    for is_tracked, paths in ((True, tracked), (False, untracked)):
        for number, path in enumerate(paths):
            if path.endswith("/"):  # another repository
                continue
            follow = number < MOST and remaining > 0
            files[path] = state = _read(worktree, path, known.get(path), tracked=is_tracked, follow=follow)
            remaining -= len(state.content.data) if state.content is not None else 0
    repositories = tuple(path for path in untracked if path.endswith("/"))
    return Snapshot(status, files, entries(change_set), repositories)


def changed_submodules(earlier: Snapshot, later: Snapshot) -> list[str]:
    """The submodules whose commit changed."""
    before, after = (
        {path for path, entry in snapshot.status.changed.items() if entry.submodule}
        for snapshot in (earlier, later)
    )
    return sorted(before ^ after)


def entries(change_set: ChangeSet) -> frozenset[FileChange]:
    return frozenset((*change_set.changes, *change_set.candidates))


def differences(
    worktree: WorkTree, earlier: Snapshot, later: Snapshot
) -> Iterator[tuple[str, Content | None, Content | None]]:
    """Yield each path that differs with its old and new content; None and None if it is not followed."""
    for path in sorted({*earlier.files, *later.files}):
        before, after = earlier.files.get(path), later.files.get(path)
        if before is not None and after is not None and before.signature == after.signature:
            continue
        if not (earlier.is_followed(path) and later.is_followed(path)):
            yield path, None, None
            continue
        old = None if before is None else before.content
        new = None if after is None else after.content
        if before is None and path in later.status.changed and path not in earlier.status.changed:
            entry = later.status.changed[path].staged  # it was clean, so the index has its old content
            old = None if entry is None else from_blob(worktree, path, entry)
        if after is None:  # it is clean now, or gone
            try:
                new = look(worktree.top, path)
            except Refused:
                new = None
        if old != new:
            yield path, old, new


def _read(
    worktree: WorkTree, path: str, known: FileState | None, *, tracked: bool, follow: bool
) -> FileState:
    signature = _signature(f"{worktree.top}/{path}")
    if signature is None:
        return FileState(None, None, tracked)
    if known is not None and known.signature == signature and (follow or not known.followed):
        return FileState(signature, known.content, tracked, known.followed)
    if follow and signature[1] <= LARGEST:
        try:
            return FileState(signature, look(worktree.top, path), tracked)
        except Refused:  # not a regular file
            pass
    return FileState(signature, None, tracked, followed=False)


def _signature(path: str | bytes) -> Signature | None:
    try:
        status = os.lstat(path)  # joined as text: there may be 100,000
    except OSError:
        return None
    # a command cannot set st_ctime
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode, status.st_ctime_ns


_GITLINK = b"160000 "
_REPOSITORY_VARIABLES = {"GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"}


def submodule_paths(worktree: WorkTree) -> list[str]:
    """The submodules in the index, checked out or not."""
    entries = git(worktree.top, "ls-files", "-z", "--stage").split(b"\0")
    return [os.fsdecode(entry.partition(b"\t")[2]) for entry in entries if entry.startswith(_GITLINK)]


def checked_out(worktree: WorkTree) -> tuple[str, ...]:
    """The submodules that are checked out. Calls git only if there are any."""
    if _REPOSITORY_VARIABLES & os.environ.keys() or not (worktree.top / ".gitmodules").exists():
        return ()
    return tuple(path for path in submodule_paths(worktree) if (worktree.top / path / ".git").exists())


def git_options(submodule: Path) -> tuple[str, str]:
    """The options for git in a submodule, which override the environment."""
    return f"--git-dir={submodule / '.git'}", f"--work-tree={submodule}"


_PLAIN = re.compile(r"[\w./+@%=~-]+")


def named(path: str) -> str:
    """`path`, quoted and escaped unless it is plain."""
    return path if _PLAIN.fullmatch(path) else json.dumps(path, ensure_ascii=not path.isprintable())


def names_of(paths: Sequence[str], most: int = NAMED) -> str:
    """The first paths, quoted, and how many more there are."""
    return _and_more(list(map(named, paths[:most])), len(paths))


def described(changes: Sequence[FileChange]) -> str:
    """The names of changed files, marked as new or deleted."""
    texts = []
    for change in changes[:NAMED]:
        status = " (new)" if change.before is None else " (deleted)" if change.after is None else ""
        texts.append(named(change.name) + status)
    return _and_more(texts, len(changes))


def _and_more(texts: Sequence[str], count: int) -> str:
    return ", ".join(texts) + (f" and {count - len(texts)} more" if count > len(texts) else "")


def write_event(path: str, change: FileChange | None = None, kind: str = "sha1") -> dict[str, object]:
    """The audit event for a file that a command wrote, with its blobs if `change` has its content."""
    event: dict[str, object] = {"kind": "write", "by": "command", "path": path}
    return event if change is None else {**event, **blobs_of(change, kind)}


def blobs_of(change: FileChange, kind: str) -> dict[str, str | None]:
    """The blob ids before and after a change, for the audit log."""
    return {
        "before": None if change.before is None else blob_hash(change.before, kind),
        "after": None if change.after is None else blob_hash(change.after, kind),
    }
