"""The locks of HEAD and its branch that a git of ours has left when it was killed."""

from __future__ import annotations

import time
from pathlib import Path

from repoagent.repo.run import git_output
from repoagent.repo.transaction.lock import read_lock
from repoagent.repo.transaction.record import Record
from repoagent.repo.worktree import WorkTree

_LEFT_SECONDS = 0.3
_COARSE_NS = 2_000_000_000  # some file systems keep times to two seconds


def remove_left_locks(worktree: WorkTree, record: Record) -> None:
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
        time.sleep(_LEFT_SECONDS)
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
