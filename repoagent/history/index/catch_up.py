"""Bring the index up to date: its new commits, then the older ones that are still to be mined, then what is alive."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from repoagent.history.index import alive, mine
from repoagent.history.index.errors import NoIndex
from repoagent.history.index.file import Broken, open_to_write, put_away, whole
from repoagent.history.index.reach import reach
from repoagent.history.index.schema import alive_at, get, get_text, put, wipe
from repoagent.history.index.signature import lacks_blobs, shallow_edge, signature
from repoagent.repo.worktree import WorkTree, layout

if TYPE_CHECKING:
    import sqlite3

    from repoagent.store import Warn


class Task(NamedTuple):
    """What is to be done: bring the index to the commit `tip` until `deadline` (of time.monotonic), back to `since`
    (seconds since 1970; None is as far as it was told before, 0 all), or anew (`rebuild`). `head`: it is HEAD, whose
    tree is to be noted; that of another commit is asked of git each time."""

    tip: bytes
    deadline: float = float("inf")
    progress: mine.Progress | None = None
    since: int | None = None
    rebuild: bool = False
    head: bool = True


def catch_up(worktree: WorkTree, warn: Warn, task: Task) -> None:
    """Do it, on a new index where there is none or a broken one. The caller holds the lock.

    Raises NoIndex where none can be written, UsageError for a tip that git can't walk from, GitError.
    """
    path = layout(worktree).history
    for again in (False, True):
        connection = open_to_write(path, warn)
        try:
            with whole(path):
                _mine(connection, worktree, warn, task)
            return
        except Broken:
            if again:
                raise NoIndex(f"{path} breaks again and again: is the disk all right?") from None
            connection.close()
            put_away(path, warn)
        finally:
            connection.close()


def _mine(connection: sqlite3.Connection, worktree: WorkTree, warn: Warn, task: Task) -> None:
    top, tip, since, rebuild = worktree.top, task.tip, task.since, task.rebuild
    mark = signature(worktree)
    begun = get(connection, "high") > 0
    if begun and not rebuild and get_text(connection, "signature") != mark:
        warn("what git shows of the history has changed (shallow, grafts, replace): it is mined again")
        rebuild = True
    if begun and rebuild:
        wipe(connection)
    if not begun or rebuild:
        mine.begin(connection, tip, mark)
    walk = mine.Walk(top, task.deadline, not lacks_blobs(worktree), shallow_edge(worktree))
    with ExitStack() as stack:
        differs = stack.enter_context(alive.difference(connection, top, tip)) if task.head else None
        mine.go_forward(connection, walk, tip, reach(connection, top, tip))
        if since is not None:
            put(connection, since=since, ended=int(get(connection, "ended") == 1))
        if not get(connection, "ended"):
            mine.go_back(connection, walk, task.progress)
        if get(connection, "ended") and (task.head or alive_at(connection) is None):
            alive.settle(connection, top, tip, differs)
