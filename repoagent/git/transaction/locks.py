"""Hold git's `index.lock`, so that nobody commits, stages or switches branches; remove locks of a killed git.

The lock is a hard link to a file of the journal: it appears whole and exclusively, and says who holds it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from repoagent.errors import Busy
from repoagent.git.index import index_path
from repoagent.git.process import git_output
from repoagent.git.transaction.journal import Record
from repoagent.git.worktree import WorkTree
from repoagent.storage.folders import SystemFailed
from repoagent.storage.journal import Journal, read_kept

LOCK_FILE = "lock"
_MAX_LOCK_BYTES = 1000  # bytes of a lock file that are read


def lock_text(name: str) -> bytes:
    """What the lock of the transaction `name` says, to git's user too."""
    return f"repoagent {name}: an edit is being committed by process {os.getpid()}\n".encode()


def lock_path(worktree: WorkTree) -> Path:
    return index_path(worktree).with_name("index.lock")


def acquire(worktree: WorkTree, journal: Journal) -> None:
    """Raises Busy when somebody has the lock."""
    path = lock_path(worktree)
    try:
        try:
            os.link(journal.path(LOCK_FILE), path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            _create(path, read_kept(journal.folder, LOCK_FILE))
    except FileExistsError:
        raise Busy(_held_by(path)) from None
    except OSError as error:
        raise SystemFailed(f"cannot create {path}: {error.strerror}; fix that and try again") from error


def _create(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except BaseException:
        path.unlink()
        raise


def is_ours(worktree: WorkTree, journal: Journal) -> bool:
    mine = journal.path(LOCK_FILE)
    return mine.exists() and read_lock(lock_path(worktree)) == read_lock(mine)


def release(worktree: WorkTree, journal: Journal) -> None:
    """Remove the lock if it is that of this journal."""
    if is_ours(worktree, journal):
        lock_path(worktree).unlink()


def read_lock(path: Path) -> bytes | None:
    """The beginning of a lock file; None where there is none that can be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_MAX_LOCK_BYTES)


def _held_by(path: Path) -> str:
    text = (read_lock(path) or b"").decode(errors="replace")
    if text.startswith("repoagent "):
        what = text.partition(": ")[2].strip()
        return f"{path} is held: {what}; try again when it is done"
    return (
        f"{path} exists: another git command is running in this work tree; try again when it is done. "
        "If none is running, remove that file"
    )


_STALE_SECONDS = 0.3
_COARSE_NS = 2_000_000_000  # some file systems keep times to two seconds


def remove_stale_ref_locks(worktree: WorkTree, record: Record) -> None:
    """Remove them; git would refuse to commit for ever.

    To be called when it is gone. A lock counts as left if it was made since it began, holds what it would have
    written (nothing, where we began, for a new branch, or a commit on top of that), and stays for a while: another
    git has it for milliseconds.
    """
    if record.started is None:
        return
    branches = [branch for branch in (record.branch, record.new_branch) if branch]
    paths = [
        worktree.git_dir / "HEAD.lock",
        *(worktree.common_dir / "refs" / "heads" / f"{name}.lock" for name in branches),
    ]
    before = {path: found for path in paths if (found := _ref_lock(worktree, path, record))}
    if before:
        time.sleep(_STALE_SECONDS)
    for path, found in before.items():
        if _ref_lock(worktree, path, record) == found:
            path.unlink(missing_ok=True)


def _ref_lock(worktree: WorkTree, path: Path, record: Record) -> tuple[int, int] | None:
    """Inode and time of a lock that may be ours."""
    try:
        status = path.lstat()
    except OSError:
        return None
    content = (read_lock(path) or b"").decode(errors="replace").strip()
    if status.st_mtime_ns < (record.started or 0) - _COARSE_NS:
        return None
    if (
        content
        and content not in (record.moves_to, record.head)
        and not content.startswith("ref: refs/heads/")
    ):
        parent = git_output(worktree.top, "rev-parse", "--verify", "--quiet", f"{content}^", ok=(0, 1, 128))
        if parent.stdout.decode().strip() != (record.head or ""):
            return None
    return status.st_ino, status.st_mtime_ns
