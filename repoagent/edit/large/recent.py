"""Which lines of a file its last commits touched: who changes a place today often changed it yesterday."""

from __future__ import annotations

import re
import time

from repoagent.history.timed import TimedGit
from repoagent.repo.run import GitError
from repoagent.repo.worktree import WorkTree

COMMITS = 10
SECONDS = 0.5
_HUNK = re.compile(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_OPTIONS = (
    "log", "--no-follow", "--no-merges", "--no-notes", "--no-decorate", "--no-color", "--no-ext-diff",
    "--no-textconv", "--no-renames", "-p", "-U0", "--format=%x01",
)  # fmt: skip

# First and last line (from 1, in the text of that commit) and the age: 0 for the last commit, 1 for the one before.
Touched = tuple[int, int, int]


def recently_touched(worktree: WorkTree, path: str) -> tuple[Touched, ...]:
    """The lines that the last commits of a file added or changed, as far as git finds them within half a second.

    They are numbered as in each commit, not as now: good enough to tell the neighborhood.
    """
    deadline = time.monotonic() + SECONDS
    try:
        log = TimedGit(worktree.top, *_OPTIONS, "-n", str(COMMITS), "HEAD", "--", path, deadline=deadline)
        text, _ = log.read()
    except GitError:  # an unborn branch
        return ()
    return tuple(
        (int(first), int(first) + max(0, int(count or 1) - 1), age)
        for age, patch in enumerate(text.split(b"\x01")[1:])
        for first, count in _HUNK.findall(patch)
    )
