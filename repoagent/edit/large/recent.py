"""Which lines of a file its last commits touched: who changes a place today often changed it yesterday."""

from __future__ import annotations

import re

from repoagent.repo.run import OFFLINE, GitError, git
from repoagent.repo.worktree import WorkTree

COMMITS = 10
MOST = 10 << 20  # bytes of all the versions that are compared
_HUNK = re.compile(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_OPTIONS = (
    "log", "--no-follow", "--no-merges", "--no-notes", "--no-decorate", "--no-color", "--no-ext-diff",
    "--no-textconv", "--no-renames", "-p", "-U0", "--format=%x01",
)  # fmt: skip

# First and last line (from 1, in the text of that commit) and the age: 0 for the last commit, 1 for the one before.
Touched = tuple[int, int, int]


def recently_touched(worktree: WorkTree, path: str, size: int, since: int | None) -> tuple[Touched, ...]:
    """The lines that the last commits of a file of `size` bytes added or changed: COMMITS, fewer of a huge file, none
    before `since` (seconds since 1970).

    They are numbered as in each commit, not as now: good enough to tell the neighborhood.
    """
    commits = max(1, min(COMMITS, MOST // max(1, size)))
    bound = [] if since is None else [f"--max-age={since}"]
    try:
        text = git(worktree.top, *_OPTIONS, *bound, "-n", str(commits), "HEAD", "--", path, env=OFFLINE)
    except GitError:  # an unborn branch
        return ()
    return tuple(
        (int(first), int(first) + max(0, int(count or 1) - 1), age)
        for age, patch in enumerate(text.split(b"\x01")[1:])
        for first, count in _HUNK.findall(patch)
    )
