"""Run a command below two parent processes, so that it stays within its limits and nothing that it starts outlives it.

The outer parent, which repoagent started, passes on signals and the exit code. The inner parent, in its own session,
watches the command; if the outer one dies, even by a SIGKILL to its group, the inner one ends everything. Both are
subreapers: a process that is orphaned below them (a daemon) becomes their child and is found.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from .syscalls import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, prctl

TYPE_CHECKING = False  # importing `typing` takes as long as everything else
if TYPE_CHECKING:
    from typing import NoReturn

FAILED = 125  # could not set up the sandbox; 126: could not execute the command, 127: no such command
KILLED = 128 + signal.SIGKILL

_ORPHANED = signal.SIGRTMIN + 7
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
              signal.SIGWINCH, signal.SIGCONT)  # fmt: skip
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_GRACE = 1.0  # seconds between such a signal and SIGKILL
_POLL = 0.02, 0.05  # seconds between two checks of the limits: in the first second, and later
_PARENT_POLL = 0.25
_MEGABYTE = 1 << 20
_FREE_SPACE = 512 * _MEGABYTE  # to leave on each writable disk; half of the free space if that is less


class ProcessLimits:
    """The limits of a command.

    memory: the maximum memory, in bytes.
    processes: the maximum number of processes.
    report: the file descriptor on which to report an exceeded limit; None for standard error.
    depth: the number of processes between the inner parent's child and the command.
    folders: folders whose disks must keep some free space.
    daemons: whether a command that ends by itself may leave processes outside its group.
    """

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
        self.memory, self.processes, self.report, self.depth = memory, processes, report, depth
        self.min_free = {folder: min(_FREE_SPACE, _free_bytes(folder) // 2) for folder in folders}
        self.daemons = daemons


def run_limited(start: Callable[[], NoReturn], limits: ProcessLimits) -> int:
    """Run `start` (which executes the command) in a child; return its exit code, 128+n after signal n."""
    parent = os.getppid()
    # with SIGCHLD ignored, the kernel would discard the exit code
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    handled = {int(number) for number in _FORWARDED if signal.getsignal(number) != signal.SIG_IGN}
    handled |= {int(signal.SIGCHLD), _ORPHANED}
    before = set(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, handled)))
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    outer = os.getpid()
    inner = os.fork()
    if not inner:
        os._exit(_run_inner(start, limits, outer, handled, before))
    _release_streams(limits)
    code, daemons = None, limits.daemons
    while code is None:
        received = signal.sigtimedwait(handled, _PARENT_POLL)
        # polled, because a death signal is also sent if only the thread that started us ends
        if os.getppid() != parent:
            code, daemons = KILLED, False
        elif received and received.si_signo == signal.SIGCHLD:
            code = _reap(inner)
        elif received and received.si_signo != _ORPHANED:
            with suppress(ProcessLookupError):
                os.kill(inner, received.si_signo)
    if not daemons:  # otherwise the inner parent has killed the group of the command
        _kill_all(outer, [])
    return code


def exit_code(status: int) -> int:
    """The exit code that a shell reports for a status of wait(2)."""
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _run_inner(
    start: Callable[[], NoReturn],
    limits: ProcessLimits,
    outer: int,
    handled: set[int],
    blocked_before: set[int],
) -> int:
    os.setsid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, _ORPHANED)
    if os.getppid() != outer:
        return KILLED
    child = os.fork()
    if not child:
        os.setsid()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked_before)
        start()
    _release_streams(limits)
    _raise_priority()
    code, exceeded, killed = _watch(child, outer, limits, handled)
    if limits.daemons and not killed:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        return code
    command = _first_descendant(child, limits.depth)
    _kill_all(os.getpid(), [child, *([command] if command else [])])
    if exceeded:
        os.write(2 if limits.report is None else limits.report, f"{exceeded}\n".encode())
    return code


def _watch(child: int, outer: int, limits: ProcessLimits, handled: set[int]) -> tuple[int, str, bool]:
    """Wait for the command: its exit code, the limit that it exceeded ("" for none), and whether to kill the rest."""
    began = checked = time.monotonic()
    deadline = None
    while True:
        current = time.monotonic()
        if deadline is not None and current > deadline:
            return KILLED, "", True
        limited = limits.memory or limits.processes or limits.min_free
        wait = _POLL[current > began + 1] if limited or deadline else 3600.0
        received = signal.sigtimedwait(handled, wait)
        if os.getppid() != outer:
            return KILLED, "", True
        if current - checked >= _POLL[0]:  # even if signals arrive all the time, as in a fork bomb
            checked = current
            if exceeded := _exceeded_limit(limits):
                return KILLED, exceeded, True
        if received and received.si_signo == signal.SIGCHLD:
            code = _reap(child)
            if code is not None:
                return code, "", deadline is not None
        elif received and received.si_signo != _ORPHANED:
            # to the command, or to the child until the command has started
            target = _first_descendant(child, limits.depth) or child
            try:
                os.killpg(target, received.si_signo)
            except (ProcessLookupError, PermissionError):  # not the leader of a group
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(target, received.si_signo)
            if received.si_signo in _ENDING and deadline is None:
                deadline = current + _GRACE


def _exceeded_limit(limits: ProcessLimits) -> str:
    """A clause about the limit that the command exceeds now; "" for none."""
    for folder, required in limits.min_free.items():
        if _free_bytes(folder) < required:
            return f"it left less than {required // _MEGABYTE} MB free on the disk that contains {folder}"
    if not (limits.memory or limits.processes):
        return ""
    # stop counting early, because this must be fast even in a fork bomb
    most = limits.processes + limits.depth + 1 if limits.processes else 100_000
    below: list[int] = []
    for started in _below(os.getpid()):
        below += started
        if len(below) >= most:
            break
    del below[: limits.depth]
    if limits.processes and len(below) > limits.processes:
        return f"it ran more than {limits.processes} processes at once"
    if not limits.memory:
        return ""
    # The resident set, which is fast to read, counts shared pages for each process. If that exceeds the limit, count
    # each process with its proportional share (Pss).
    sizes: dict[int, int] = {}
    for process in below:
        with suppress(*_GONE, IndexError):
            sizes[process] = int(_read(f"/proc/{process}/statm").split()[1]) * _PAGE
    if sum(sizes.values()) > limits.memory:
        for process, resident in sizes.items():
            with suppress(OSError):
                lines = _read(f"/proc/{process}/smaps_rollup").splitlines()
                shares = [int(line.split()[1]) * 1024 for line in lines if line.startswith(b"Pss:")]
                sizes[process] = shares[0] if shares else resident
    if sum(sizes.values()) > limits.memory:
        return f"it used more than {limits.memory // _MEGABYTE} MB of memory"
    return ""


def _free_bytes(folder: str) -> int:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return 0
    return disk.f_bavail * disk.f_frsize


def _reap(awaited: int) -> int | None:
    """Reap all dead children; the exit code of `awaited` if it is one of them."""
    code = None
    with suppress(ChildProcessError):
        while True:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == awaited:
                code = exit_code(status)
            if not process:
                break
    return code


def _release_streams(limits: ProcessLimits) -> None:
    """Close the streams, so that only the command has pipes open, except standard error if a report goes there."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1) if limits.report is None else (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _kill_all(root: int, groups: list[int]) -> None:
    """Kill everything below this process (`root`, a subreaper) until nothing is left or 5 seconds are over.

    A process group is killed in one step, so its processes cannot escape by forking. The rest is searched repeatedly: a
    process with a pending SIGKILL cannot fork any more.
    """
    _raise_priority()
    deadline = time.monotonic() + 5.0
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    while time.monotonic() < deadline:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # orphans become ours: no child left proves that everything has ended
            return
        killed = 0
        for started in _below(root):
            for process in started:  # each as soon as it is found
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
            killed += len(started)
        if killed < 30:
            time.sleep(0.001)  # for the kernel to end them


def _raise_priority() -> None:
    """If permitted (root), get priority over the command: otherwise each session of a fork bomb gets as much time."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))


# Reading /proc. `pathlib` takes long to import, and these functions run many times a second.

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LISTS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # noqa: PTH110
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


def _below(root: int) -> Iterator[list[int]]:
    """The children of each process below `root`, level by level; some that were just started or orphaned may be
    missing."""
    searched: dict[int, list[int]] = {}
    if not _LISTS_CHILDREN:  # a kernel that does not list them: one scan of all processes
        for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
            with suppress(*_GONE):
                parent = int(_read(f"/proc/{name}/stat").rpartition(b")")[2].split()[1])
                searched.setdefault(parent, []).append(int(name))
    level = [root]
    while level:
        following: list[int] = []
        for process in level:
            started = searched.get(process, [])
            with suppress(*_GONE):
                for thread in os.listdir(f"/proc/{process}/task") if _LISTS_CHILDREN else ():  # noqa: PTH208
                    with suppress(*_GONE):
                        started += map(int, _read(f"/proc/{process}/task/{thread}/children").split())
            if started:
                yield started
            following += started
        level = following


def _first_descendant(process: int, depth: int) -> int | None:
    """The first child of the first child ... `depth` times: the command below the processes that wrap it."""
    for _ in range(depth):
        started = next(_below(process), None)
        if started is None:
            return None
        process = min(started)
    return process


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 20)
    finally:
        os.close(descriptor)
