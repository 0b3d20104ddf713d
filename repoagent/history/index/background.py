"""Build the index while the person goes on."""

from __future__ import annotations

import os
import sys

from repoagent.errors import Busy, Refused
from repoagent.repo.worktree import WorkTree, layout
from repoagent.store import ensure, locked

_COMMAND = ("-m", "repoagent", "mine", "--quiet", "--background")


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
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        streams = [(os.POSIX_SPAWN_DUP2, nothing, number) for number in (0, 1, 2)]
        command = [sys.executable, *_COMMAND[:2], "-C", str(worktree.top), *_COMMAND[2:]]
        os.posix_spawn(sys.executable, command, os.environ, file_actions=streams)  # nobody waits for its end
    finally:
        os.close(nothing)
    return True
