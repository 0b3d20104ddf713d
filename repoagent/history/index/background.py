"""Build the index while the person goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from repoagent.errors import Busy, Refused
from repoagent.repo.worktree import WorkTree, layout
from repoagent.store import ensure, locked

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
    from repoagent.config import load
    from repoagent.history.index.index import LOCK

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
    """Start a process of ours that nobody waits for and that holds nothing open: not our streams, nor a pipe that
    whoever started us has left to us, whose reader would wait for the end of it."""
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
    """The descriptors beside the three streams that a process which we start would get too."""
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
