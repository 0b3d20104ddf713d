"""The processes below one: which they are, what memory they take, and the end of all of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LISTS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # noqa: PTH110 - pathlib takes long to load
_FEW = 30
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


def descendants(root: int, most: int = 100_000) -> list[int]:
    """The processes below `root`, parents first, up to `most`. What is born or orphaned meanwhile may be missing."""
    children = _children if _LISTS_CHILDREN else _children_by_search()
    found: list[int] = []
    level = [root]
    while level and len(found) < most:
        below: list[int] = []
        for process in level:
            below += children(process)
            if len(found) + len(below) >= most:
                break
        found += below
        level = below
    return found


def first_below(process: int, depth: int) -> int | None:
    """The first child of the first child ... of a process: the command, where it was wrapped `depth` times."""
    for _ in range(depth):
        below = (_children if _LISTS_CHILDREN else _children_by_search())(process)
        if not below:
            return None
        process = min(below)
    return process


def memory_of(processes: list[int], limit: int) -> int:
    """The memory that processes take together, in bytes: exact only where it comes near to `limit`.

    What several share is counted several times at first, which is quick; if that is too much, each has its share.
    """
    resident = {process: _resident(process) for process in processes}
    total = sum(resident.values())
    if total <= limit:
        return total
    return sum(_proportional(process, size) for process, size in resident.items())


def end_all(root: int, groups: list[int], patience: float = 5.0) -> None:
    """Kill everything below this process (`root`, a subreaper) until nothing is left, or `patience` seconds are over.

    A process group dies in one step, whatever it does meanwhile; the rest is looked for again and again: a process
    that has a SIGKILL pending can't fork any more.
    """
    hurry()
    give_up = time.monotonic() + patience
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    while not _reaped_all() and time.monotonic() < give_up:
        if _kill_below(root) < _FEW:
            time.sleep(0.001)  # for the kernel to end them


def hurry() -> None:
    """Go before what is watched, where that is allowed (to root): each session of a fork bomb has a share like ours."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def _kill_below(root: int) -> int:
    """Kill what is found below `root` as soon as it is found; how many that were."""
    children = _children if _LISTS_CHILDREN else _children_by_search()
    count = 0
    level = [root]
    while level:
        below: list[int] = []
        for process in level:
            found = children(process)
            for child in found:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
            below += found
        count += len(below)
        level = below
    return count


def _reaped_all() -> bool:
    """Take leave of all children that are dead. Orphans become ours: none left is the proof that all is over."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 20)
    finally:
        os.close(descriptor)


def _children(process: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{process}/task")  # noqa: PTH208 - ten times a second
    except _GONE:
        return []
    found: list[int] = []
    for thread in threads:
        with suppress(*_GONE):
            found += map(int, _read(f"/proc/{process}/task/{thread}/children").split())
    return found


def _children_by_search() -> Callable[[int], list[int]]:
    """As `_children`, for a kernel that does not list them: by looking at all processes once."""
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with suppress(*_GONE):
                parent = int(_read(f"/proc/{name}/stat").rpartition(b")")[2].split()[1])
                below.setdefault(parent, []).append(int(name))
    return lambda process: below.get(process, [])


def _resident(process: int) -> int:
    try:
        return int(_read(f"/proc/{process}/statm").split()[1]) * _PAGE
    except (*_GONE, IndexError):
        return 0


def _proportional(process: int, otherwise: int) -> int:
    try:
        for line in _read(f"/proc/{process}/smaps_rollup").splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return otherwise
