"""Hold `index.lock`, git's own lock: while it stands, nobody commits, stages or switches branches.

The lock is a hard link to a file of our journal, so it appears whole, exclusively, and says whose it is.
"""

from __future__ import annotations

import os
from pathlib import Path

from repoagent.errors import Busy
from repoagent.repo.index import index_path
from repoagent.repo.worktree import WorkTree
from repoagent.store.folders import SystemFailed
from repoagent.store.journal import Journal, kept

MARK = "lock"
_LONGEST = 1000  # bytes of a lock file that are read


def mark(name: str) -> bytes:
    """What the lock of the transaction `name` says, to git's user too."""
    return f"repoagent {name}: an edit is being committed by process {os.getpid()}\n".encode()


def lock_path(worktree: WorkTree) -> Path:
    return index_path(worktree).with_name("index.lock")


def take(worktree: WorkTree, journal: Journal) -> None:
    """Raises Busy when somebody has the lock."""
    path = lock_path(worktree)
    try:
        try:
            os.link(journal.path(MARK), path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            _create(path, kept(journal.folder, MARK))
    except FileExistsError:
        raise Busy(_who(path)) from None
    except OSError as error:
        raise SystemFailed(
            f"{path} could not be made: {error.strerror}; put that right and try again"
        ) from error


def _create(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except BaseException:
        path.unlink()
        raise


def is_ours(worktree: WorkTree, journal: Journal) -> bool:
    mine = journal.path(MARK)
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
        return file.read(_LONGEST)


def _who(path: Path) -> str:
    text = (read_lock(path) or b"").decode(errors="replace")
    if text.startswith("repoagent "):
        what = text.partition(": ")[2].strip()
        return f"{path} is held: {what}; try again when it is done"
    return (
        f"{path} exists: another git command runs in this work tree; try again when it is done. "
        "If none does, one was killed: remove that file"
    )
