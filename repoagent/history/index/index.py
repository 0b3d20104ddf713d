"""The history index of one repository: open it, update it (also in the background), and read it as of a revision.

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
_WAIT = 0.25  # seconds for another process that brings the index up to date


class State(NamedTuple):
    """How far the index is.

    `commits` have been mined, of all branches, no merges. `new` are those that the revision reaches and the index
    lacks. `end` says where mining back stands: "mining" (not there yet), "whole", "date" (it was told to stop at
    `since`), or "unreadable" (git could not read further). `total` is known only of a whole index. `size` is in bytes.
    """

    commits: int
    end: str = "mining"
    new: int = 0
    since: int | None = None
    size: int = 0

    @property
    def complete(self) -> bool:
        """Whether nothing is missing that the revision reaches."""
        return self.end == "whole" and not self.new

    @property
    def total(self) -> int | None:
        return self.commits + self.new if self.end == "whole" else None


class Index:
    """A context manager; see `open_index`. Where there is no index to use, its methods raise NoIndex."""

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
        """Close all that was opened; views can't be asked any more."""
        self._idle = None
        while self._open:
            self._open.pop().close()

    def resolve(self, revision: str) -> bytes:
        """The commit that a revision names, as an id in hexadecimal; looked up once. Raises UsageError, NoCommits."""
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
        """The same, but a full id is taken for that of a commit, which saves a git process."""
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
        """Bring the index to `revision`: its new commits first, then mine on, newest first, for at most `seconds`.

        `since` (seconds since 1970) is how far back; None is as far as it was told before, 0 all. While another process
        is at it the state is what that has done so far; with `insist` Busy is raised. `head`: the revision, given by
        its id, is HEAD, the one whose tree is noted to answer at once. Raises UsageError for a revision that does not
        exist, NoCommits before the first commit, GitError.
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
                self._idle = None  # it may be of a file that was set aside
                catch_up(self._worktree, self._warn, Task(tip, deadline, progress, since, rebuild, head))
        except Busy:
            if insist:
                raise
        except Refused as error:  # a folder that can't be written
            if found is not None:
                return found
            if isinstance(error, NoIndex):
                raise
            raise NoIndex(str(error)) from error
        return self.state(revision)

    def state(self, revision: str = "HEAD") -> State:
        """How far the index is for `revision`; nothing is mined."""
        connection = self._reader()
        if connection is None:
            return State(0)
        try:
            with whole(self._path):
                return self._state(connection, reach(connection, self._top, self._tip(revision)))
        except Broken:
            return State(0)

    def view(self, revision: str = "HEAD") -> IndexView:
        """The history that `revision` reaches, as far as it is mined: a snapshot, what is mined later is not in it.

        Raises UsageError for a revision that does not exist, NoCommits, and NoIndex when nothing has been mined.
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
        """Make room for a new index when this one turns out to be damaged as it is read."""
        try:
            with locked(self._layout.root / LOCK, timeout=0, what="the history index"):
                put_away(self._path, self._warn)
        except (Busy, Refused):
            pass  # who mines just now finds it out, and where nothing may be written nothing can be done
        self.close()
        raise NoIndex(f"{self._path} was damaged; the next command rebuilds it") from error

    def _reader(self) -> sqlite3.Connection | None:
        """An index that something has been mined into, or None."""
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
        """The state, if there is nothing to do for `tip`. What is not there to be read is to be made, by who writes."""
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
        """Whether the paths that are noted as alive are those of another commit than `tip`."""
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


# The program itself, as arguments of Python. With -m, or -c alone, it would import what lies in the current folder: a
# repository with a file click.py or repoagent.py would be run by being looked at.
ITSELF = ("-c", "import sys; sys.path[:] = filter(None, sys.path); from repoagent.cli import main; main()")


def mine_in_background(worktree: WorkTree) -> bool:
    """Start `repoagent mine` for this repository, apart from us: in a session of its own, without our terminal, giving
    way to everything else. Whether it was started: not while another process mines, nor in CI, where the machine is
    gone soon, nor with `history.background` off, nor where no index can be kept.
    """
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
    _started[:] = [pid for pid in _started if not _is_over(pid)]  # a server would gather them
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
    except ChildProcessError:  # somebody else has waited for it, or we are a fork of who started it
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
        except OSError:  # the one of the listing itself
            continue
    return found
