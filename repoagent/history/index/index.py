"""The history index of one repository: open it, update it (also in the background), and read it at a revision.

An update adds new commits, then older ones that are not indexed yet, then the paths of the present tree.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from repoagent.errors import Busy, Refused
from repoagent.git.objects import no_such_commit, resolve_commit
from repoagent.git.worktree import WorkTree, is_full_id, layout_of
from repoagent.history.index import schema
from repoagent.history.index.reader import IndexView, ReachableCommits, compute_reach, stored_reach
from repoagent.history.index.schema import NoCommits, get_integer, get_value
from repoagent.history.recent_commits import existing_files
from repoagent.storage.database import (
    DatabaseDamaged,
    DatabaseUnusable,
    open_database,
    open_to_read,
    set_damaged_aside,
    sqlite_errors,
)
from repoagent.storage.layout import Warn, ensure_root, to_stderr
from repoagent.storage.locks import hold_lock

if TYPE_CHECKING:
    import sqlite3

    from repoagent.history.index.miner import Progress

LOCK = ".history.lock"
ENDED = {schema.WHOLE: "whole", schema.UNREADABLE: "unreadable"}
_WAIT = 0.25  # seconds to wait for another process that updates the index


class IndexState(NamedTuple):
    """How much of the history is indexed.

    commits: the number of indexed commits on all branches, without merges.
    new: the number of commits that the revision reaches and that are not indexed.
    end: "mining" if older commits are missing, "unreadable" if git could not read them, else "whole".
    size: the size of the index in bytes.
    """

    commits: int
    end: str = "mining"
    new: int = 0
    size: int = 0

    @property
    def complete(self) -> bool:
        return self.end == "whole" and not self.new


class HistoryIndex:
    """The history index of a repository, as a context manager; see `open_index`. Its methods raise DatabaseUnusable if
    there is no usable index."""

    def __init__(self, worktree: WorkTree, warn: Warn) -> None:
        self._worktree, self._warn = worktree, warn
        self._top, self._layout = worktree.top, layout_of(worktree)
        self._path = self._layout.history
        self._open: list[sqlite3.Connection] = []
        self._idle: sqlite3.Connection | None = None  # the one to read with, unless a view has taken it
        self._tips: dict[str, bytes] = {}

    def __enter__(self) -> HistoryIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        self._idle = None
        while self._open:
            self._open.pop().close()

    def resolve(self, revision: str) -> bytes:
        """The hexadecimal id of the commit that a revision names (cached). Raises UsageError if it names none,
        NoCommits for HEAD before the first commit."""
        if revision not in self._tips:
            if commit := resolve_commit(self._top, revision):
                self._tips[revision] = commit.encode()
            elif revision == "HEAD":
                raise NoCommits("no history: this repository has no commits yet")
            else:
                raise no_such_commit(revision)
        return self._tips[revision]

    def _tip(self, revision: str) -> bytes:
        """Like `resolve`, but a full id is assumed to be a commit, which saves a git process."""
        return revision.encode() if is_full_id(revision) else self.resolve(revision)

    def update(
        self,
        revision: str = "HEAD",
        *,
        seconds: float | None = None,
        progress: Progress | None = None,
        rebuild: bool = False,
        insist: bool = False,
        head: bool = False,
    ) -> IndexState:
        """Update the index to `revision`: add its new commits, then older ones, newest first, for at most `seconds`.

        While another process updates the index, return its state so far, or raise Busy with `insist`. With `head`, the
        revision (passed as an id) is HEAD, and its tree is recorded. Raises UsageError for an unknown revision,
        NoCommits before the first commit, GitError if git fails.
        """
        tip, head = self._tip(revision), head or revision == "HEAD"
        current, tree = (None, None) if rebuild else self._current(tip)
        if current is not None and not (head and tree != tip):
            return current
        deadline = float("inf") if seconds is None else time.monotonic() + seconds
        wait = 0.0 if current is not None else _WAIT if seconds is None else min(_WAIT, seconds)
        try:
            ensure_root(self._layout)
            with hold_lock(self._layout.root / LOCK, timeout=wait, label="the history index"):
                self._idle = None  # its file may be renamed as damaged
                self._catch_up(tip, deadline, progress, rebuild=rebuild, head=head)
        except Busy:
            if insist:
                raise
        except Refused as error:  # the folder cannot be written
            if current is not None:
                return current
            if isinstance(error, DatabaseUnusable):
                raise
            raise DatabaseUnusable(str(error)) from error
        return self.state(revision)

    def state(self, revision: str = "HEAD") -> IndexState:
        connection = self._reader()
        try:
            with sqlite_errors(self._path):
                if connection is not None:
                    return self._state(connection, compute_reach(connection, self._top, self._tip(revision)))
        except DatabaseDamaged:
            pass
        return IndexState(0)

    def view(self, revision: str = "HEAD") -> IndexView:
        """A snapshot of the indexed history that `revision` reaches.

        Raises UsageError for an unknown revision, NoCommits before the first commit, DatabaseUnusable if nothing has
        been indexed.
        """
        tip = self._tip(revision)
        connection = self._reader()
        if connection is None:
            raise DatabaseUnusable("the history is not indexed yet; run `repoagent mine`")
        self._idle = None
        try:
            with sqlite_errors(self._path):
                connection.execute("BEGIN")
                bounds = compute_reach(connection, self._top, tip).bounds
                is_recorded = get_value(connection, "alive") == tip
                exists = None if is_recorded else partial(existing_files, self._top, tip.decode())
                return IndexView(connection, bounds, exists, self._replace_damaged)
        except DatabaseDamaged as error:
            self._replace_damaged(error)

    def _replace_damaged(self, error: Exception) -> NoReturn:
        """Rename an index that turns out to be damaged, so that a new one is built."""
        try:
            with hold_lock(self._layout.root / LOCK, timeout=0, label="the history index"):
                set_damaged_aside(self._path, error, self._warn)
        except (Busy, Refused):
            pass  # another process that updates it will notice; a read-only folder cannot be helped
        self._close()
        raise DatabaseUnusable(f"{self._path} was damaged; the next command will rebuild it") from error

    def _reader(self) -> sqlite3.Connection | None:
        """A connection to an index with commits, or None."""
        if self._idle is None:
            self._idle = open_to_read(self._path, schema.SCHEMA)
            if self._idle is None:
                return None
            self._open.append(self._idle)
        with suppress(DatabaseDamaged), sqlite_errors(self._path):
            return self._idle if get_integer(self._idle, "high") else None
        return None

    def _current(self, tip: bytes) -> tuple[IndexState | None, bytes | None]:
        """The state if the index is up to date for `tip`, and the commit whose tree is recorded."""
        connection = self._reader()
        with suppress(DatabaseDamaged), sqlite_errors(self._path):
            if connection is None or (stored := stored_reach(connection, tip)) is None:
                return None, None
            is_same = get_value(connection, "signature") == schema.signature(self._worktree)
            if is_same and get_integer(connection, "ended") in ENDED:
                return self._state(connection, stored), get_value(connection, "alive")
        return None, None

    def _state(self, connection: sqlite3.Connection, reached: ReachableCommits) -> IndexState:
        commits = get_integer(connection, "done") + get_integer(connection, "high") - schema.BASE
        end = ENDED.get(get_integer(connection, "ended"), "mining")
        return IndexState(commits, end, len(reached.new), self._path.stat().st_size)

    def _catch_up(
        self, tip: bytes, deadline: float, progress: Progress | None, *, rebuild: bool, head: bool
    ) -> None:
        """Bring the index to `tip`, with a new one if it is missing or damaged. The caller holds the lock."""
        from repoagent.history.index import miner

        for again in (False, True):
            try:
                with (
                    sqlite_errors(self._path),
                    closing(open_database(self._path, schema.SCHEMA, self._warn, wal=True)) as connection,
                ):
                    connection.execute("PRAGMA synchronous = NORMAL")
                    connection.execute("PRAGMA wal_autocheckpoint = 4000")
                    connection.execute("PRAGMA cache_size = -8000")
                    mark = schema.signature(self._worktree)
                    begun = get_integer(connection, "high") > 0
                    if begun and not rebuild and get_value(connection, "signature") != mark:
                        self._warn("the boundary of this shallow clone has changed; rebuilding the index")
                        rebuild = True
                    if begun and rebuild:
                        schema.wipe(connection)
                    if not begun or rebuild:
                        miner.begin(connection, tip, mark)
                    edge = frozenset(schema.shallow_edge(self._worktree).split())
                    walk = miner.Walk(self._top, deadline, not schema.lacks_blobs(self._worktree), edge)
                    miner.go_forward(connection, walk, tip, compute_reach(connection, self._top, tip))
                    if get_integer(connection, "ended") not in ENDED:
                        miner.go_back(connection, walk, progress)
                    if get_integer(connection, "ended") and (head or get_value(connection, "alive") is None):
                        miner.record_tree(connection, self._top, tip)
                return
            except DatabaseDamaged as error:
                if again:
                    raise DatabaseUnusable(
                        f"{self._path} was damaged again after it was rebuilt; check the disk"
                    ) from None
                set_damaged_aside(self._path, error, self._warn)


def open_index(worktree: WorkTree, *, warn: Warn = to_stderr) -> HistoryIndex:
    """The index of the repository of `worktree`, which all its work trees share.

    Nothing is read or created yet. `warn` is called with a sentence if the index later has to be recreated.
    """
    return HistoryIndex(worktree, warn)


# Arguments for Python to run this program. -m, or -c alone, would import from the current folder, so a repository with
# a file click.py or repoagent.py could run its own code.
ITSELF = ("-c", "import sys; sys.path[:] = filter(None, sys.path); from repoagent.cli import main; main()")


def mine_in_background(worktree: WorkTree) -> bool:
    """Start `repoagent mine` for this repository in the background, with low priority and detached from the terminal.
    Returns whether such a process is running: False in CI, with `history.background` off, or if the index cannot be
    written."""
    if os.environ.get("CI", "").lower() not in {"", "0", "false"}:
        return False
    from repoagent.config.layers import load_settings

    where = layout_of(worktree)
    if not load_settings(where, worktree.top).switch("history.background"):
        return False
    try:
        ensure_root(where)
        with hold_lock(where.root / LOCK, timeout=0, label="the history index"):
            pass
    except Busy:
        return True
    except Refused:
        return False
    spawn_apart(["-C", str(worktree.top), "mine", "--quiet", "--background"])
    return True


def spawn_apart(arguments: list[str]) -> None:
    """Start a background process that holds nothing open: neither standard streams nor an inherited pipe, whose reader
    would wait for the process to end."""
    # GIT_INDEX_FILE may name an index that git deletes after the commit
    env = {name: value for name, value in os.environ.items() if name != "GIT_INDEX_FILE"}
    nothing = subprocess.DEVNULL
    command = [sys.executable, *ITSELF, *arguments]
    process = subprocess.Popen(command, env=env, stdin=nothing, stdout=nothing, stderr=nothing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it may outlive us; `subprocess` reaps it later
        del process
