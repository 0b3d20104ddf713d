"""Hold git's `index.lock`, so that no other git commits, stages or switches branches; remove locks of a killed git.

The lock is a hard link to a file of the journal: it appears atomically and exclusively, and names its holder.
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
from repoagent.storage.journal import Journal, read_stored

LOCK_FILE = "lock"
_MAX_LOCK_BYTES = 1000  # bytes of a lock file that are read
_STALE_SECONDS = 0.3
_COARSE_NS = 2_000_000_000  # some file systems keep times to two seconds


def lock_text(name: str) -> bytes:
    """The text of the lock of the transaction `name`, which users of git may see."""
    return f"repoagent {name}: an edit is being committed by process {os.getpid()}\n".encode()


def lock_path(worktree: WorkTree) -> Path:
    """Where git locks the index of this work tree."""
    return index_path(worktree).with_name("index.lock")


def acquire(worktree: WorkTree, journal: Journal) -> None:
    """Take the lock. Raises Busy if another git command holds it, SystemFailed."""
    path = lock_path(worktree)
    try:
        try:
            os.link(journal.path(LOCK_FILE), path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                try:
                    file.write(read_stored(journal.folder, LOCK_FILE))
                    file.flush()
                except BaseException:
                    path.unlink()
                    raise
    except FileExistsError:
        text = (_read_lock(path) or b"").decode(errors="replace")
        if text.startswith("repoagent "):
            holder = text.partition(": ")[2].strip()
            raise Busy(f"{path} is held: {holder}; try again when it is done") from None
        raise Busy(
            f"{path} exists: another git command is running in this work tree; try again when it is done. "
            "If none is running, remove that file"
        ) from None
    except OSError as error:
        raise SystemFailed(f"cannot create {path}: {error.strerror}; fix that and try again") from error


def is_ours(worktree: WorkTree, journal: Journal) -> bool:
    """Whether the index is locked by the transaction of this journal."""
    file = journal.path(LOCK_FILE)
    return file.exists() and _read_lock(lock_path(worktree)) == _read_lock(file)


def release(worktree: WorkTree, journal: Journal) -> None:
    """Remove the lock if it belongs to this journal."""
    if is_ours(worktree, journal):
        lock_path(worktree).unlink()


def _read_lock(path: Path) -> bytes | None:
    """The beginning of a lock file; None if there is none or it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_MAX_LOCK_BYTES)


def remove_stale_ref_locks(worktree: WorkTree, record: Record) -> None:
    """Remove the locks of references that a killed git has left, with which git would refuse to commit for ever.

    Call it when that git has ended. A lock is stale if it was created since git started, contains what git would have
    written (nothing, the starting commit, or a commit on top of it), and stays for a while: a running git holds it for
    milliseconds.
    """
    if record.started is None:
        return
    folder = worktree.common_dir / "refs" / "heads"
    branches = [folder / f"{branch}.lock" for branch in (record.branch, record.new_branch) if branch]
    stale = {}
    for path in (worktree.git_dir / "HEAD.lock", *branches):
        identity = _stale_identity(worktree, path, record)
        if identity is not None:
            stale[path] = identity
    if stale:
        time.sleep(_STALE_SECONDS)
    for path, identity in stale.items():
        if _stale_identity(worktree, path, record) == identity:
            path.unlink(missing_ok=True)


def _stale_identity(worktree: WorkTree, path: Path, record: Record) -> tuple[int, int] | None:
    """Inode and time of a lock that our git may have left; None for another lock."""
    try:
        status = path.lstat()
    except OSError:
        return None
    if status.st_mtime_ns < (record.started or 0) - _COARSE_NS:
        return None
    content = (_read_lock(path) or b"").decode(errors="replace").strip()
    if content not in ("", record.moves_to, record.head) and not content.startswith("ref: refs/heads/"):
        parent = git_output(worktree.top, "rev-parse", "--verify", "--quiet", f"{content}^", ok=(0, 1, 128))
        if parent.stdout.decode().strip() != (record.head or ""):
            return None
    return status.st_ino, status.st_mtime_ns
