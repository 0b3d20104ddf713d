"""The machine: a sandbox for commands, locks of the file system, room on the disk, the clock."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from repoagent.doctor.check import Check, error, halves, ok, warning
from repoagent.repo.worktree import WorkTree, layout

_LITTLE, _TOO_LITTLE = 1 << 30, 50 << 20  # bytes
_LANDLOCK_CREATE_RULESET = 444  # the number of the system call, on every architecture
_DAY = 86_400


def check_sandbox() -> Iterator[Check]:
    """What there is to run a command in; it is only reported."""
    there = []
    if sys.platform == "darwin" and shutil.which("sandbox-exec"):
        there.append("sandbox-exec")
    if bwrap := shutil.which("bwrap"):
        there.append("bubblewrap" if _runs(bwrap) else "bubblewrap (may make no namespaces here)")
    if version := landlock():
        there.append(f"Landlock {version}")
    yield ok("sandbox", ", ".join(there) or f"none on this {platform.system()}")


def landlock() -> int:
    """The version of Landlock that the kernel has, 0 for none."""
    if sys.platform != "linux":
        return 0
    system_call = ctypes.CDLL(None).syscall
    system_call.restype = ctypes.c_long
    return max(0, int(system_call(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def check_locks(worktree: WorkTree) -> Iterator[Check]:
    """Whether the file system of the git directory has locks, and who holds one of ours."""
    from repoagent.store.locks import held_by, trouble_with_locks

    where = layout(worktree)
    if trouble := trouble_with_locks(where.private if where.private.is_dir() else where.git_dir):
        yield warning("locks", *halves(trouble))
    held = []
    places = sorted(where.locks.iterdir()) if where.locks.is_dir() else []
    for path in (*places, where.memory_lock):
        if path.is_file() and (who := held_by(path)):
            held.append(f"{path.name} by {who}")
    if held:
        yield ok("locks", f"held: {'; '.join(held)}")
    elif not trouble:
        yield ok("locks", "they work, and none is held")


def check_disk(worktree: WorkTree | None) -> Iterator[Check]:
    """Room where files are written."""
    place = worktree.git_dir if worktree else Path.cwd()
    free = shutil.disk_usage(place).free
    said = f"{free / 1e9:.1f} GB free at {place}"
    if free < _TOO_LITTLE:
        yield error("disk", said, "make room: an edit is written whole or not at all")
    elif free < _LITTLE:
        yield warning("disk", said, "make room soon")
    else:
        yield ok("disk", said)


def check_clock(worktree: WorkTree | None) -> Iterator[Check]:
    """Whether the clock can be right: times of files, of turns and of commits are compared."""
    now = time.time()
    said = time.strftime("%Y-%m-%d %H:%M:%S %z")
    last = _last_commit(worktree) if worktree else None
    source = Path(__file__).stat().st_mtime
    if now + _DAY < source:
        yield error("clock", f"{said}, before repoagent was installed", "set the clock")
    elif last is not None and last > now + _DAY:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(last))
        yield warning("clock", f"{said}, and the last commit is of {when}", "set the clock, if it is wrong")
    else:
        yield ok("clock", said)


def _last_commit(worktree: WorkTree) -> int | None:
    from repoagent.repo.run import git_output

    done = git_output(worktree.top, "log", "-1", "--format=%ct", "HEAD", "--", ok=(0, 128))
    text = os.fsdecode(done.stdout).strip()
    return int(text) if text.isdecimal() else None


def _runs(bwrap: str) -> bool:
    """Whether it may make the namespaces that it needs."""
    command = [bwrap, "--ro-bind", "/", "/", "--unshare-net", "true"]
    try:
        return subprocess.run(command, capture_output=True, timeout=5, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
