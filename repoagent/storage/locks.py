"""Locks between processes: flock on a file that also names its holder.

A lock file is never removed (otherwise two processes could get the lock, one of them through the removed file), and the
system releases the lock if its owner dies. A lock is not reentrant: a process that takes it twice waits for itself
until the timeout.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from repoagent.errors import Busy
from repoagent.storage.folders import open_folder, require_regular, system_failed

_POLL_SECONDS = (0.002, 0.05)  # first and longest wait between two tries


@contextmanager
def hold_lock(path: Path, *, timeout: float = 10.0, label: str) -> Iterator[None]:
    """Hold the lock file `path` during the block; `label` names the locked object in messages ("the memory").

    Raises Busy, naming the holder, if the lock is not free within `timeout` seconds; Refused if `path` is a link, or
    its file system does not support locks.
    """

    def busy(text: bytes) -> str:
        who = _holder(text) or "another process"
        return (
            f"cannot lock {label}, held by {who}; waited {timeout:g} s: try again when that process has "
            "finished, or end it"
        )

    descriptor = open_locked(path, timeout, busy)
    try:
        started = datetime.now().astimezone().isoformat(sep="T", timespec="seconds")
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:100]
        shown = "".join(c if c.isprintable() else " " for c in command)
        text = f"{os.getpid()} {os.uname().nodename or '-'} {started} {shown}\n"
        with suppress(OSError):  # a full disk: the lock is valid, but messages cannot name its holder
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text.encode(errors="replace"), 0)
        yield
    finally:
        with suppress(OSError):  # the file may name an old holder then, but the lock must be released
            os.ftruncate(descriptor, 0)
        # close() is not enough: a child process shares the lock through its copy of the descriptor
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def open_locked(path: Path, timeout: float, busy: Callable[[bytes], str], flags: int = 0) -> int:
    """Open and lock the file `path`, which is created if missing, and return its descriptor. `flags` are added to those
    of `open`.

    Raises Busy if the lock is not free within `timeout` seconds; `busy` makes the message from the beginning of the
    file, which may name the holder. Raises Refused as `hold_lock` does.
    """
    deadline = time.monotonic() + timeout
    flags |= os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open_folder(path.parent, create=True) as parent:
        while True:
            try:
                descriptor = os.open(path.name, flags, 0o600, dir_fd=parent)
            except OSError as error:
                raise system_failed("open", path, error) from error
            succeeded = False
            try:
                status = require_regular(descriptor, path)
                if not flock_until(descriptor, deadline, path):
                    raise Busy(busy(os.pread(descriptor, 1000, 0)))
                with suppress(FileNotFoundError):  # it may have been moved away during the wait
                    current = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
                    succeeded = os.path.samestat(status, current)
                if succeeded:
                    return descriptor
            finally:
                if not succeeded:
                    os.close(descriptor)


def flock_until(descriptor: int, deadline: float, path: Path) -> bool:
    """Lock an open file; False if the `deadline` (on the time.monotonic clock) passes first. Tries at least once."""
    pause, longest = _POLL_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            pass
        except OSError as error:
            raise system_failed("lock", path, error) from error
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(pause * 2, longest)


def lock_holder(path: Path) -> str | None:
    """A description of the process that holds the lock file `path`; None if the lock is free or its holder unknown.
    Does not delay waiting processes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(os.pread(descriptor, 1000, 0)) or "another process"
    except OSError:  # a file system without locks
        return None
    finally:
        os.close(descriptor)
    return None


def _holder(data: bytes) -> str | None:
    fields = data.decode(errors="replace").strip().split(" ", 3)
    if len(fields) < 4 or not fields[0].isdigit():
        return None
    pid, host, since, command = fields
    where = "" if host == (os.uname().nodename or "-") else f" on {host}"
    return f"process {pid}{where} ({command}), since {since.replace('T', ' ')}"
