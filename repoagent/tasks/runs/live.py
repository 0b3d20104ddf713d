"""A live run: it holds its lock, writes its progress, and reads requests before each call.

A process is identified by its number, its start time and the boot of its machine: the number alone may be reused.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.errors import Busy, Exit, LimitReached, NothingDone, RepoagentError
from repoagent.storage import jsonl
from repoagent.storage.atomic import sweep, write_whole
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Warn, ensure, to_stderr
from repoagent.storage.locks import held_by, locked
from repoagent.storage.secrets import mask
from repoagent.tasks.runs import inbox
from repoagent.tasks.runs.directory import RunDirectory, resume_command
from repoagent.tasks.runs.record import (
    ENDS,
    PAUSED,
    RUNNING,
    VERSION,
    About,
    Record,
    cut,
    first_line,
    from_dict,
    now,
    to_dict,
)

if TYPE_CHECKING:
    from repoagent.llm.model import Usage

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STARTED = 19  # which word of /proc/PID/stat behind the name: proc(5) counts it as field 22


def host() -> str:
    """The name of this machine."""
    return os.uname().nodename or "-"


@lru_cache(maxsize=1)
def boot() -> str:
    """What this start of the system is known by; "" where it does not say (it is not Linux)."""
    try:
        return _BOOT.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def born(pid: int) -> str:
    """When the process `pid` of this machine began, as the system writes it; "" for one that is not there.

    Together with the number and the boot it is the process, and never a later one.
    """
    if not 1 < pid < 2**31:
        return ""
    try:
        said = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return "" if boot() else _born_by_ps(pid)
    words = said[said.rfind(b")") + 2 :].split()  # the name in parentheses may hold anything
    gone = len(words) <= _STARTED or words[0] in (b"Z", b"X")
    return "" if gone else words[_STARTED].decode("ascii", "replace")


def _born_by_ps(pid: int) -> str:
    import subprocess

    env = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    try:
        done = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)], env=env, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return " ".join(done.stdout.split())


def terminate(pid: int, birth: str) -> bool:
    """Send SIGTERM to the process `pid` that began at `birth`; False when it is gone or another one has its number.

    Where the system has handles of processes, it can't become another one in between. Raises PermissionError.
    """
    if not birth or born(pid) != birth:
        return False
    try:
        if not hasattr(os, "pidfd_open"):
            os.kill(pid, signal.SIGTERM)
            return True
        handle = os.pidfd_open(pid)
        try:
            if born(pid) != birth:
                return False
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        finally:
            os.close(handle)
    except ProcessLookupError:
        return False
    return True


_WRITES, _WITHIN = 4, 1.0  # run.json is written at most so often in so many seconds
_POLL = 0.2  # seconds between two looks at a pause
_WAIT = 1.0  # for the lock: who only looks whether it is held has it for a moment


class Stopped(RepoagentError):
    """Somebody has had the run stop. Nothing is lost: it goes on from its conversation. `how` is what its record
    says."""

    exit_code = Exit.INTERRUPTED

    def __init__(self, sentence: str, how: str = "") -> None:
        super().__init__(sentence)
        self.how = how or sentence


class Live:
    """A run at work. To be used from one thread; `living` makes it."""

    def __init__(self, run_dir: RunDirectory, about: About, earlier: Record | None, warn: Warn) -> None:
        self.run_dir = run_dir
        self.paused = 0.0  # seconds it has stood still so far; they count for no limit on time
        self._warn = warn
        self._written: deque[float] = deque(maxlen=_WRITES)
        self._stale = False
        self._lock = _identity(run_dir)
        self._asked = (run_dir, RunDirectory(run_dir.layout, about.parent)) if about.parent else (run_dir,)
        self._earlier = earlier or Record()
        self._record = replace(
            self._earlier,
            name=run_dir.name, kind=about.kind, parent=about.parent,
            prompt=first_line(mask(about.prompt)) or self._earlier.prompt,
            model=about.model, mode=about.mode, limits=dict(about.limits), said=dict(about.said),
            worktree=about.worktree, branch=about.branch,
            pid=os.getpid(), host=host(), boot=boot(), born=born(os.getpid()),
            started=self._earlier.started or now(), begun=now(), ended="", state=RUNNING, doing="", text="", exit=None,
        )  # fmt: skip
        self._write()

    @property
    def record(self) -> Record:
        """What `run.json` says, or is about to."""
        return self._record

    @property
    def lost(self) -> bool:
        """Whether its home was removed, or moved away, under it: somebody else may be this run by now. From then on
        nothing is written there."""
        return _identity(self.run_dir) != self._lock

    def turn(self, *, turns: int, doing: str, usage: Usage, cost: float | None) -> None:
        """How far it is: `doing` in a few words, what comes next. `turns`, `usage` and `cost` (US dollars, None where a
        price is not known) are since this process began with it; what earlier ones used is added.

        Cheap: four are written at once, then at most four a second; the last of more is written by what comes next.
        """
        if self._record.ended:
            return
        before = self._earlier
        spent = None if cost is None or before.cost is None else before.cost + cost
        fresh = replace(
            self._record,
            turns=before.turns + turns,
            tokens=before.tokens + usage.total,
            cost=spent,
            doing=first_line(mask(doing)),
        )
        if fresh != self._record:
            self._record, self._stale = fresh, True
        self._freshen()

    def adopted(self, child: Record) -> None:
        """Count what a child used whose end an earlier process of this run did not see."""
        before = self._earlier
        cost = None if before.cost is None or child.cost is None else before.cost + child.cost
        turns, tokens = before.turns + child.turns, before.tokens + child.tokens
        self._earlier = replace(before, turns=turns, tokens=tokens, cost=cost)

    def control(self) -> list[inbox.Message]:
        """What is wanted: to be asked before each call of a model, and once more before the run counts as finished.

        What is asked of the run that delegated this one holds for it too: a child may begin after that was asked.

        The messages that came meanwhile, oldest first; to ask again says that those of the last time are in the
        conversation (their turns name them: see inbox.py). Stands still while somebody has it paused; a message alone
        does not end that. Raises Stopped when somebody wants it to stop, in a pause too.
        """
        inbox.confirm(self.run_dir)
        self._freshen()
        began = time.monotonic()
        while True:
            if any(inbox.is_there(each.stop) for each in self._asked):
                raise Stopped(
                    f"the run {self.run_dir.name} was stopped on request; resume it with "
                    f"`{resume_command(self.run_dir.name, self._record.kind)}`",
                    "stopped on request",
                )
            if not any(inbox.is_there(each.pause) for each in self._asked):
                break
            if self._record.state != PAUSED:
                self._becomes(PAUSED)
            time.sleep(_POLL)
            self.paused, began = self.paused + time.monotonic() - began, time.monotonic()
        if self._record.state == PAUSED:
            self._becomes(RUNNING)
        return inbox.take(self.run_dir, self._warn)

    def ended(
        self, state: str, text: str, *, commits: Sequence[str] = (), exit_code: int | None = None
    ) -> None:
        """It is over: `state` is one of `record.ENDS`, `text` says how it ended, in its last words. To be called when
        nothing more will be done; the first call counts. `exit_code` is what the process will return, where that is
        not what its state says."""
        if self._record.ended:
            return
        if state not in ENDS:
            raise ValueError(f"invalid end state {state!r}; use one of {', '.join(ENDS)}")
        inbox.confirm(self.run_dir)
        self._end(state, text, commits, ENDS[state] if exit_code is None else exit_code)

    def committed(self, commits: Sequence[str]) -> None:
        """These commits were made so far, by this process."""
        known = tuple(dict.fromkeys((*self._earlier.commits, *commits)))
        if not self._record.ended and known != tuple(self._record.commits):
            self._record = replace(self._record, commits=known)
            self._write()

    def broken_off(self, error: BaseException) -> None:
        """It ends by `error`. That it can't be written down is only said: `error` is what the person has to know."""
        state, code, text = _meaning(error)
        try:
            if not self._record.ended:
                self._end(state, text, (), code)
        except RepoagentError as why:
            self._warn(f"could not record how the run {self.run_dir.name} ended: {why}")

    def _end(self, state: str, text: str, commits: Sequence[str], code: int) -> None:
        if self.lost:
            return
        for request in (self.run_dir.stop, self.run_dir.pause):
            inbox.clear(request)
        found = (*self._earlier.commits, *self._record.commits, *commits)
        self._record = replace(
            self._record, state=state, text=cut(mask(text)), commits=tuple(dict.fromkeys(found)), exit=int(code),
            ended=now(), doing="",
        )  # fmt: skip
        self._write()

    def _becomes(self, state: str) -> None:
        self._record = replace(self._record, state=state)
        self._write()

    def _freshen(self) -> None:
        full = len(self._written) == _WRITES and time.monotonic() - self._written[0] < _WITHIN
        if self._stale and not full:
            self._write()

    def _write(self) -> None:
        if self.lost:
            return
        data = jsonl.dumps({"version": VERSION, **to_dict(self._record)}, indent=1) + b"\n"
        write_whole(self.run_dir.record, data, settled=not self._written or self._record.ended != "")
        self._written.append(time.monotonic())
        self._stale = False


@contextmanager
def living(run_dir: RunDirectory, about: About, *, warn: Warn = to_stderr) -> Iterator[Live]:
    """Be the run `home` for the block: nobody else can, and all see that it is alive. Its folder is made.

    A run that is there goes on: it keeps what it used before, and gets what it was told and has not seen. What ends the
    block is written down, unless `Live.ended` did: Stopped, a limit, ^C, any other error; an end without a word counts
    as failed.

    Raises Busy when another process is at it, and says which; Refused, Newer (run.json is of a newer repoagent).
    """
    ensure(run_dir.layout)
    with ExitStack() as held:
        _lock(held, run_dir)
        earlier = jsonl.read_document(run_dir.record, version=VERSION, warn=warn)
        place = run_dir.layout
        for kept in (*run_dir.folders, place.root, place.conversations, place.sent):
            sweep(kept)
        for request in (
            run_dir.stop,
            run_dir.pause,
        ):  # of a process that was killed before it could heed them
            inbox.clear(request)
        with open_folder(run_dir.inbox, create=True):
            inbox.put_back(run_dir)
        live = Live(run_dir, about, None if earlier is None else from_dict(earlier), warn)
        try:
            yield live
        except BaseException as error:
            live.broken_off(error)
            raise
        live.ended("failed", "it ended without a result")


def _identity(run_dir: RunDirectory) -> tuple[int, int] | None:
    """Which file its lock is; None where there is none."""
    try:
        status = run_dir.lock.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _lock(held: ExitStack, run_dir: RunDirectory) -> None:
    try:
        held.enter_context(locked(run_dir.lock, timeout=_WAIT, what=f"the run {run_dir.name}"))
    except Busy as error:
        who = held_by(run_dir.lock)
        raise Busy(
            f"the run {run_dir.name} is running in {who}; wait for it (`repoagent runs wait {run_dir.name}`), "
            f"send it a message (`repoagent runs message {run_dir.name} TEXT`) or stop it"
            if who
            else str(error)
        ) from error


def _meaning(error: BaseException) -> tuple[str, int, str]:
    if isinstance(error, Stopped):
        return "stopped", Exit.INTERRUPTED, error.how
    if isinstance(error, LimitReached):
        return "limit", error.exit_code, str(error)
    if isinstance(error, NothingDone):
        return "rejected", error.exit_code, str(error)
    if isinstance(error, RepoagentError):
        return "failed", error.exit_code, str(error)
    if isinstance(error, KeyboardInterrupt):
        return "stopped", Exit.INTERRUPTED, str(error) or "interrupted"
    return "failed", Exit.INTERNAL, f"internal error in repoagent: {type(error).__name__}: {error}"
