"""Two parents for a command: nothing that it starts outlives it, and it gets no more memory and processes than allowed.

The outer one is what our caller started. It passes on signals and the exit code. The inner one, in a session of its
own, watches the command; when the outer one is killed, even by SIGKILL to its group, it ends everything. Both are
subreapers: whatever is orphaned below them (a daemon) becomes their child and is found.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from .kernel import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl
from .watch import descendants, end_all, first_below, hurry, memory_of

TYPE_CHECKING = False  # what `typing` says; loading it would take as long as the rest
if TYPE_CHECKING:
    from typing import NoReturn

FAILED = (
    125  # the sandbox could not be set up; 126 and 127 are a command that can't be executed or is not there
)
KILLED = 128 + signal.SIGKILL

_ORPHANED = signal.SIGRTMIN + 7
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
              signal.SIGWINCH, signal.SIGCONT)  # fmt: skip
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_GRACE = 1.0  # seconds that a command has to end by itself when it is told to
_LOOK = 0.02, 0.05  # seconds between two looks at it: in its first second, and later
_PARENT_LOOK = 0.25
_MEGABYTE = 1 << 20
SPARE = 512 * _MEGABYTE  # of each disk that it may write to; half of what is free where that is less


class Limits:
    """What a command may take, and where the reason goes when it took more."""

    def __init__(
        self,
        memory: int | None,
        processes: int | None,
        report: int | None,
        depth: int,
        folders: Sequence[str] = (),
        *,
        daemons: bool = False,
    ) -> None:
        self.memory = memory  # bytes
        self.processes = processes
        self.report = report  # a descriptor; standard error where there is none
        self.spare = {folder: min(SPARE, _free(folder) // 2) for folder in folders}  # bytes that stay free
        self.depth = depth  # how many processes stand between the child of the inner parent and the command
        self.daemons = daemons  # what has left the command's group may outlive a command that ends by itself


def _free(folder: str) -> int:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return 0
    return disk.f_bavail * disk.f_frsize


class Signals:
    """The signals that are waited for, which are blocked, and what was blocked before."""

    def __init__(self, heard: set[int], blocked_before: set[int]) -> None:
        self.heard = heard
        self.blocked_before = blocked_before


def supervise(start: Callable[[], NoReturn], limits: Limits) -> int:
    """Run `start` (which executes the command) in a child and return its exit code: 128+n where signal n ended it."""
    parent = os.getppid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the exit code away
    heard = {int(number) for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN}
    heard |= {int(signal.SIGCHLD), _ORPHANED}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    signals = Signals(heard, set(map(int, before)))
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    outer = os.getpid()
    inner = os.fork()
    if not inner:
        os._exit(_inner(start, limits, outer, signals))
    _let_go(limits)
    return _outer(inner, parent, signals, daemons=limits.daemons)


def become_command(blocked: set[int]) -> None:
    """Signals as a command expects them: none of ours blocked, and Python's own settings taken back."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def exit_code(status: int) -> int:
    """The exit code for a status of wait(2), as a shell would say it."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _outer(inner: int, parent: int, signals: Signals, *, daemons: bool) -> int:
    code = None
    while code is None:
        got = signal.sigtimedwait(signals.heard, _PARENT_LOOK)
        if (
            os.getppid() != parent
        ):  # by looking: a death signal comes when the thread that started us ends, too
            code, daemons = KILLED, False
        elif got and got.si_signo == signal.SIGCHLD:
            code = _reap(inner)
        elif got and got.si_signo != _ORPHANED:
            with suppress(ProcessLookupError):
                os.kill(inner, got.si_signo)
    if not daemons:  # else the inner one has ended what may not stay
        end_all(os.getpid(), [])
    return code


def _inner(start: Callable[[], NoReturn], limits: Limits, outer: int, signals: Signals) -> int:
    os.setsid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, _ORPHANED)
    if os.getppid() != outer:
        return KILLED
    child = os.fork()
    if not child:
        os.setsid()
        become_command(signals.blocked_before)
        start()
    _let_go(limits)
    hurry()
    code, reason, ended = _watch(child, outer, limits, signals)
    if limits.daemons and not ended:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        return code
    command = first_below(child, limits.depth)
    end_all(os.getpid(), [child, *([command] if command else [])])
    if reason:
        os.write(2 if limits.report is None else limits.report, f"{reason}\n".encode())
    return code


def _watch(child: int, outer: int, limits: Limits, signals: Signals) -> tuple[int, str, bool]:
    """Wait for the end of the command: its exit code, the reason where a limit ended it, and whether it was ended."""
    began = looked = time.monotonic()
    deadline = None
    while True:
        now = time.monotonic()
        if deadline is not None and now > deadline:
            return KILLED, "", True
        limited = limits.memory or limits.processes or limits.spare
        wait = _LOOK[now > began + 1] if limited or deadline else 3600.0
        got = signal.sigtimedwait(signals.heard, wait)
        if os.getppid() != outer:
            return KILLED, "", True
        if now - looked >= _LOOK[0]:  # also where one signal follows another, as in a fork bomb
            looked = now
            if reason := _passed(limits):
                return KILLED, reason, True
        if got and got.si_signo == signal.SIGCHLD:
            code = _reap(child)
            if code is not None:
                return code, "", deadline is not None
        elif got and got.si_signo != _ORPHANED:
            _pass_on(got.si_signo, child, limits.depth)
            if got.si_signo in _ENDING and deadline is None:
                deadline = now + _GRACE


def _passed(limits: Limits) -> str:
    """Which limit is passed just now, in words; empty for none."""
    for folder, spare in limits.spare.items():
        if _free(folder) < spare:
            return f"it left less than {spare // _MEGABYTE} MB free on the disk of {folder}"
    if not (limits.memory or limits.processes):
        return ""
    most = (
        limits.processes + limits.depth + 1 if limits.processes else 100_000
    )  # quickly, also in a fork bomb
    below = descendants(os.getpid(), most)[limits.depth :]
    if limits.processes and len(below) > limits.processes:
        return f"it ran more than {limits.processes} processes at once"
    if limits.memory and memory_of(below, limits.memory) > limits.memory:
        return f"it took more than {limits.memory // _MEGABYTE} MB of memory"
    return ""


def _pass_on(number: int, child: int, depth: int) -> None:
    """Send a signal to the group of the command; to what is in its place as long as it has not begun."""
    command = first_below(child, depth)
    try:
        os.killpg(command or child, number)
    except (ProcessLookupError, PermissionError):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(command or child, number)


def _reap(awaited: int) -> int | None:
    """Take leave of the children that are dead; the exit code of `awaited` if it is one of them."""
    code = None
    with suppress(ChildProcessError):
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == awaited:
                code = exit_code(status)
            if not process:
                break
    return code


def _let_go(limits: Limits) -> None:
    """Hold no end of a pipe that only the command should hold; standard error where a reason may have to be said."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1) if limits.report is None else (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
