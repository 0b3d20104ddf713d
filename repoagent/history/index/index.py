"""The history index of one repository: open it, update it (also in the background), and read it at a revision.

An update adds new commits, then older ones that are not indexed yet, then the paths of the present tree.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from repoagent.errors import Busy, Refused, UsageError
from repoagent.git.process import git_output
from repoagent.git.worktree import WorkTree, is_full_id, layout
from repoagent.history.index.reader import IndexView, Reach, known, reach
from repoagent.history.index.schema import (
    BASE,
    ENDS,
    Broken,
    NoCommits,
    NoIndex,
    alive_at,
    get,
    get_text,
    lacks_blobs,
    open_to_read,
    open_to_write,
    put,
    put_away,
    shallow_edge,
    signature,
    whole,
    wipe,
)
from repoagent.storage.layout import Warn, ensure, to_stderr
from repoagent.storage.locks import locked

if TYPE_CHECKING:
    import sqlite3


Progress = Callable[[int], None]
LOCK = ".history.lock"
_WAIT = 0.25  # seconds to wait for another process that updates the index


class State(NamedTuple):
    """The state of the index.

    `commits` have been indexed, of all branches, without merges. `new` commits are reachable from the revision and not
    indexed. `end` is "mining" (older commits are missing), "whole", "date" (stopped at `since`), or "unreadable" (git
    could not read older commits). `total` is known only for a whole index. `size` is in bytes.
    """

    commits: int
    end: str = "mining"
    new: int = 0
    since: int | None = None
    size: int = 0

    @property
    def complete(self) -> bool:
        """Whether all commits that the revision reaches are indexed."""
        return self.end == "whole" and not self.new

    @property
    def total(self) -> int | None:
        return self.commits + self.new if self.end == "whole" else None


class Index:
    """A context manager; see `open_index`. Its methods raise NoIndex if there is no usable index."""

    def __init__(self, worktree: WorkTree, warn: Warn) -> None:
        self._worktree, self._warn = worktree, warn
        self._top, self._layout = worktree.top, layout(worktree)
        self._path = self._layout.history
        self._open: list[sqlite3.Connection] = []
        self._idle: sqlite3.Connection | None = None  # the one to read with, unless a view has taken it
        self._tips: dict[str, bytes] = {}

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections, also those of views."""
        self._idle = None
        while self._open:
            self._open.pop().close()

    def resolve(self, revision: str) -> bytes:
        """The hexadecimal id of the commit that a revision names, cached. Raises UsageError, NoCommits."""
        if revision not in self._tips:
            peeled = ("--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
            result = git_output(self._top, "rev-parse", *peeled, ok=(0, 1, 128))
            if result.returncode == 0:
                self._tips[revision] = result.stdout.strip()
            elif revision == "HEAD":
                raise NoCommits("no history: this repository has no commits yet")
            else:
                raise UsageError(f"no such commit: {revision}; name a commit, branch or tag")
        return self._tips[revision]

    def _tip(self, revision: str) -> bytes:
        """As `resolve`, but a full id is assumed to be a commit, which saves a git process."""
        return revision.encode() if is_full_id(revision) else self.resolve(revision)

    def update(
        self,
        revision: str = "HEAD",
        *,
        seconds: float | None = None,
        progress: Progress | None = None,
        since: int | None = None,
        rebuild: bool = False,
        insist: bool = False,
        head: bool = False,
    ) -> State:
        """Update the index to `revision`: add its new commits, then older ones, newest first, for at most `seconds`.

        `since` (seconds since 1970) limits how far back; None keeps the limit, 0 removes it. While another process
        updates the index, return its state so far, or raise Busy with `insist`. `head`: the revision, passed as an id,
        is HEAD, whose tree is recorded. Raises UsageError for an unknown revision, NoCommits before the first commit,
        GitError.
        """
        tip, head = self._tip(revision), head or revision == "HEAD"
        found = self._current(tip) if not rebuild and since is None else None
        if found is not None and not (head and self._is_of_another_tree(tip)):
            return found
        deadline = float("inf") if seconds is None else time.monotonic() + seconds
        wait = _WAIT if seconds is None else min(_WAIT, seconds)
        if found is not None:
            wait = 0.0
        try:
            ensure(self._layout)
            with locked(self._layout.root / LOCK, timeout=wait, what="the history index"):
                self._idle = None  # its file may be renamed as damaged
                catch_up(self._worktree, self._warn, Task(tip, deadline, progress, since, rebuild, head))
        except Busy:
            if insist:
                raise
        except Refused as error:  # the folder cannot be written
            if found is not None:
                return found
            if isinstance(error, NoIndex):
                raise
            raise NoIndex(str(error)) from error
        return self.state(revision)

    def state(self, revision: str = "HEAD") -> State:
        """The state of the index for `revision`, without an update."""
        connection = self._reader()
        if connection is None:
            return State(0)
        try:
            with whole(self._path):
                return self._state(connection, reach(connection, self._top, self._tip(revision)))
        except Broken:
            return State(0)

    def view(self, revision: str = "HEAD") -> IndexView:
        """A snapshot of the indexed history that `revision` reaches.

        Raises UsageError for an unknown revision, NoCommits, and NoIndex if nothing has been indexed.
        """
        tip = self._tip(revision)
        connection = self._reader()
        if connection is None:
            raise NoIndex("the history is not indexed yet; run `repoagent mine`")
        self._idle = None
        from repoagent.history.index.reader import IndexView, reach

        try:
            with whole(self._path):
                connection.execute("BEGIN")
                found = reach(connection, self._top, tip)
                if alive_at(connection) == tip:
                    return IndexView(connection, found.bounds, None, self._put_away)
                from repoagent.history.index.tree_paths import finder

                return IndexView(connection, found.bounds, finder(self._top, tip), self._put_away)
        except Broken as error:
            self._put_away(error)

    def _put_away(self, error: Exception) -> NoReturn:
        """Rename an index that turns out to be damaged, so that a new one is built."""
        try:
            with locked(self._layout.root / LOCK, timeout=0, what="the history index"):
                put_away(self._path, self._warn)
        except (Busy, Refused):
            pass  # another process that updates it will notice; a read-only folder cannot be helped
        self.close()
        raise NoIndex(f"{self._path} was damaged; the next command rebuilds it") from error

    def _reader(self) -> sqlite3.Connection | None:
        """A connection to an index with commits, or None."""
        connection = self._idle or open_to_read(self._path)
        if connection is None:
            return None
        if connection is not self._idle:
            self._open.append(connection)
            self._idle = connection
        try:
            with whole(self._path):
                return connection if get(connection, "high") else None
        except Broken:
            return None

    def _current(self, tip: bytes) -> State | None:
        """The state if the index is up to date for `tip`, else None."""
        connection = self._reader()
        if connection is None:
            return None
        try:
            with whole(self._path):
                stored = known(connection, tip)
                same = get_text(connection, "signature") == signature(self._worktree)
                if stored is None or not same or not get(connection, "ended"):
                    return None
                return self._state(connection, stored)
        except Broken:
            return None

    def _is_of_another_tree(self, tip: bytes) -> bool:
        """Whether the recorded tree is that of another commit than `tip`."""
        try:
            with whole(self._path):
                return self._idle is not None and alive_at(self._idle) != tip
        except Broken:
            return True

    def _state(self, connection: sqlite3.Connection, found: Reach) -> State:
        commits = get(connection, "done") + get(connection, "high") - BASE
        end = ENDS[get(connection, "ended")]
        since = get(connection, "since") if end == "date" else None
        return State(commits, end, len(found.new), since, self._path.stat().st_size)


def open_index(worktree: WorkTree, *, warn: Warn = to_stderr) -> Index:
    """The index of the repository of `worktree`; its linked work trees share it. Nothing is read or made yet.

    `warn` gets a sentence if the index had to be recreated.
    """
    return Index(worktree, warn)


class Task(NamedTuple):
    """Bring the index to the commit `tip` until `deadline` (of time.monotonic), back to `since` (seconds since 1970;
    None: as far as before; 0: the whole history), or from the start (`rebuild`). `head`: the commit is HEAD, whose tree
    is recorded; that of another commit is read from git each time."""

    tip: bytes
    deadline: float = float("inf")
    progress: Progress | None = None
    since: int | None = None
    rebuild: bool = False
    head: bool = True


def catch_up(worktree: WorkTree, warn: Warn, task: Task) -> None:
    """Perform the task, with a new index if it is missing or damaged. The caller holds the lock.

    Raises NoIndex if it cannot be written, UsageError if git cannot walk from the tip, GitError.
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
                raise NoIndex(f"{path} keeps breaking; check the disk") from None
            connection.close()
            put_away(path, warn)
        finally:
            connection.close()


def _mine(connection: sqlite3.Connection, worktree: WorkTree, warn: Warn, task: Task) -> None:
    from repoagent.history.index import miner, tree_paths

    top, tip, since, rebuild = worktree.top, task.tip, task.since, task.rebuild
    mark = signature(worktree)
    begun = get(connection, "high") > 0
    if begun and not rebuild and get_text(connection, "signature") != mark:
        warn("the history has changed (shallow boundary, grafts or replaced commits); rebuilding the index")
        rebuild = True
    if begun and rebuild:
        wipe(connection)
    if not begun or rebuild:
        miner.begin(connection, tip, mark)
    walk = miner.Walk(top, task.deadline, not lacks_blobs(worktree), shallow_edge(worktree))
    with ExitStack() as stack:
        differs = stack.enter_context(tree_paths.difference(connection, top, tip)) if task.head else None
        miner.go_forward(connection, walk, tip, reach(connection, top, tip))
        if since is not None:
            put(connection, since=since, ended=int(get(connection, "ended") == 1))
        if not get(connection, "ended"):
            miner.go_back(connection, walk, task.progress)
        if get(connection, "ended") and (task.head or alive_at(connection) is None):
            tree_paths.settle(connection, top, tip, differs)


# Arguments for Python to run this program. -m, or -c alone, would import from the current folder, so a repository with
# a file click.py or repoagent.py could run its own code.
ITSELF = ("-c", "import sys; sys.path[:] = filter(None, sys.path); from repoagent.cli import main; main()")


def mine_in_background(worktree: WorkTree) -> bool:
    """Start `repoagent mine` for this repository in the background, with low priority and without our terminal. Returns
    whether it was started: not while another process updates the index, in CI, with `history.background` off, or if the
    index cannot be written."""
    if os.environ.get("CI", "").lower() not in {"", "0", "false"}:
        return False
    from repoagent.config.layers import load

    where = layout(worktree)
    if not load(where, worktree.top).switch("history.background"):
        return False
    try:
        ensure(where)
        with locked(where.root / LOCK, timeout=0, what="the history index"):
            pass
    except (Busy, Refused):
        return False
    spawn_apart(["-C", str(worktree.top), "mine", "--quiet", "--background"], os.environ)
    return True


_started: list[int] = []


def spawn_apart(arguments: list[str], env: Mapping[str, str]) -> None:
    """Start a background process that holds nothing open: neither our streams nor an inherited pipe, whose reader
    would wait for its end."""
    _started[:] = [pid for pid in _started if not _is_over(pid)]  # a server would accumulate zombies
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        streams = [(os.POSIX_SPAWN_DUP2, nothing, number) for number in (0, 1, 2)]
        left = [(os.POSIX_SPAWN_CLOSE, number) for number in _inherited()]
        command = [sys.executable, *ITSELF, *arguments]
        _started.append(os.posix_spawn(sys.executable, command, env, file_actions=[*streams, *left]))
    finally:
        os.close(nothing)


def _is_over(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:  # it was waited for elsewhere, or by the process that we were forked from
        return True


def _inherited() -> list[int]:
    """The descriptors, other than the three streams, that a child process would inherit."""
    try:
        every = [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208
    except OSError:  # a system without it
        return []
    found = []
    for number in every:
        try:
            if number > 2 and os.get_inheritable(number):
                found.append(number)
        except OSError:  # the descriptor of the listing itself
            continue
    return found
