"""Learn what is usual in a repository: from its index, and from the lines of a bounded sample of its commits.

Nothing of it grows with the repository: the newest 2,000 commits at most are looked at, and the lines of 300.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.errors import Busy, Refused
from repoagent.history.cochange.calibrate import calibrate
from repoagent.history.timed import TimedGit
from repoagent.repo.run import GitError, git
from repoagent.review.history import fixes
from repoagent.review.history.habits import Habits, save
from repoagent.review.history.marks import is_counted
from repoagent.review.history.unusual import quantile
from repoagent.store import ensure, locked

if TYPE_CHECKING:
    from repoagent.history.index import IndexView
    from repoagent.repo.worktree import WorkTree
    from repoagent.store import Layout

COMMITS = 1000  # whose number of files counts
SAMPLE = 300  # whose lines count
LOCK = ".learn.lock"
SECONDS = 20.0  # for the lines


def learn(worktree: WorkTree, layout: Layout, *, seconds: float = SECONDS) -> Habits | None:
    """Bring the index to HEAD, learn, and keep what was learned; None where there is no history, or not yet, and while
    another process is at it.

    Raises UsageError, GitError, Refused.
    """
    from repoagent.history.index import NoCommits, NoIndex, open_index

    try:
        ensure(layout)
        with (
            locked(layout.root / LOCK, timeout=0, what="what is usual here"),
            open_index(worktree, warn=_silent) as index,
        ):
            tip = index.resolve("HEAD").decode("ascii")
            state = index.update("HEAD")
            if state.new or state.end == "mining":  # another process is making the index
                return None
            habits = habits_of(index.view("HEAD"), worktree.top, tip, seconds=seconds, mined=state.commits)
    except (NoCommits, NoIndex, Busy):
        return None
    with suppress(Refused):  # where nothing can be kept, it is learned again the next time
        save(layout, habits)
    return habits


def habits_of(view: IndexView, top: Path, tip: str, *, seconds: float, mined: int) -> Habits:
    """What is usual as seen from the commit `tip`, whose history `view` is."""

    def repairing(numbers: Iterable[int]) -> dict[int, str]:
        ids = {number: found[0].decode("ascii") for number, found in view.describe(list(numbers)).items()}
        wanted = fix_commits(top, ids.values())
        return {number: commit for number, commit in ids.items() if commit in wanted}

    sizes = [commit.size for commit in view.latest(COMMITS) if commit.size]
    lines = list(changed_lines(top, tip, seconds))
    fixing = fixes.learn(view, repairing)
    return Habits(
        tip, mined, calibrate(view), quantile(sizes), len(sizes), quantile(lines), len(lines), fixing.usual,
        fixing.files,
    )  # fmt: skip


def fix_commits(top: Path, commits: Iterable[str]) -> set[str]:
    """Those of the commits (full ids) whose subjects say that they repair something; one git call."""
    stdin = "".join(f"{commit}\n" for commit in commits).encode()
    out = git(
        top, "log", "--no-walk=unsorted", "--ignore-missing", "--stdin", "-z", "--no-color", "--format=%H %s",
        stdin=stdin,
    )  # fmt: skip
    entries = (entry.partition(b" ") for entry in out.split(b"\0") if entry)
    return {commit.decode("ascii") for commit, _, subject in entries if fixes.is_fix(subject)}


def changed_lines(top: Path, tip: str, seconds: float, commits: int = SAMPLE) -> Iterator[int]:
    """Of the newest commits, no merges, the added and removed lines that count; as many as are read in time. None in a
    partial clone that lacks their texts."""
    walk = TimedGit(
        top, "log", "--numstat", "-z", "--format=%x01", "--no-merges", "--no-renames", "--no-ext-diff", "--no-textconv",
        "--no-color", f"--max-count={commits}", tip, "--", deadline=time.monotonic() + seconds,
    )  # fmt: skip
    try:
        data, late = walk.read()
    except GitError:
        return
    entries = data.split(b"\x01")[1:]
    for entry in entries[:-1] if late else entries:
        yield sum(_lines(row) for row in entry.split(b"\0") if row.strip())


def _lines(row: bytes) -> int:
    """Of a row of --numstat: a binary file has dashes for numbers."""
    added, removed, path = row.strip(b"\n").split(b"\t", 2)
    if added == b"-" or not is_counted(os.fsdecode(path)):
        return 0
    return int(added) + int(removed)


def learn_in_background(worktree: WorkTree, layout: Layout) -> bool:
    """Start `repoagent review --learn` for this repository, apart from us, giving way to everything else, as
    `mine_in_background` does. Whether it is under way now: not in CI, where the machine is gone soon, nor where nothing
    can be kept."""
    if os.environ.get("CI", "").lower() not in {"", "0", "false"}:
        return False
    from repoagent.history.index.background import spawn_apart

    try:
        ensure(layout)
        with locked(layout.root / LOCK, timeout=0, what="what is usual here"):
            pass
    except Busy:
        return True
    except Refused:
        return False
    # GIT_INDEX_FILE may name an index that is gone when the commit is made
    command = ["-C", str(worktree.top), "review", "--learn", "--background"]
    spawn_apart(command, {name: value for name, value in os.environ.items() if name != "GIT_INDEX_FILE"})
    return True


def _silent(_: str) -> None:
    """Nobody listens in the background."""
