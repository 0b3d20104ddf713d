"""Locks between processes: flock on a file that also says who holds it.

A lock file is never removed (removing one while another process waits on it would let two in), and the
system frees the lock when its owner dies, however it dies. A lock does not nest: taking it twice in one
process waits for itself.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from repoagent.errors import Busy, Refused
from repoagent.storage.folders import open_folder, regular, system_failed

_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS}
_POLL_SECONDS = (0.002, 0.05)  # first and longest wait between two tries


@contextmanager
def locked(path: Path, *, timeout: float = 10.0, what: str) -> Iterator[None]:
    """Hold the lock file `path` for the block; `what` names in a message what is locked ("the memory").

    Raises Busy, naming the holder, when it is not free within `timeout` seconds; Refused when `path` is a
    link or no regular file, or its file system has no locks.
    """
    deadline = time.monotonic() + timeout
    descriptor = _take(path, deadline, timeout, what)
    try:
        _sign(descriptor)
        yield
    finally:
        with suppress(
            OSError
        ):  # a message may name a holder that is gone; the lock must be given back all the same
            os.ftruncate(descriptor, 0)
        # not left to close(): a child forked in between shares the lock through its copy of the descriptor
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def flock_until(descriptor: int, deadline: float, path: Path) -> bool:
    """Lock an open file; False when `deadline` (of time.monotonic) passes first. At least one try is made."""
    pause, longest = _POLL_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                raise Refused(_no_locks(path)) from error
            if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EINTR):
                raise system_failed("lock", path, error) from error
        else:
            return True
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(pause * 2, longest)


def still_at(descriptor: int, parent: int, name: str) -> bool:
    """Whether the open file is what `name` in the folder `parent` names now (it may have been moved away)."""
    mine = os.fstat(descriptor)
    try:
        current = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (current.st_dev, current.st_ino)


def _take(path: Path, deadline: float, timeout: float, what: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open_folder(path.parent, create=True) as parent:
        while True:
            try:
                descriptor = os.open(path.name, flags, 0o600, dir_fd=parent)
            except OSError as error:
                raise system_failed("open the lock file", path, error) from error
            succeeded = False
            try:
                regular(descriptor, path)
                if not flock_until(descriptor, deadline, path):
                    who = _holder(os.pread(descriptor, 1000, 0)) or "another process"
                    raise Busy(
                        f"{what} is locked by {who}; waited {timeout:g} s: try again when it is done, or end that "
                        "process"
                    )
                succeeded = still_at(descriptor, parent, path.name)
                if succeeded:
                    return descriptor
            finally:
                if not succeeded:
                    os.close(descriptor)


def _sign(descriptor: int) -> None:
    started = datetime.now().astimezone().isoformat(sep="T", timespec="seconds")
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:100]
    shown = "".join(c if c.isprintable() else " " for c in command)
    text = f"{os.getpid()} {os.uname().nodename or '-'} {started} {shown}\n"
    with suppress(
        OSError
    ):  # a full disk: the lock holds all the same, only a message will not name its holder
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(errors="replace"), 0)


def held_by(path: Path) -> str | None:
    """Who holds the lock file `path` now, in words; None if it is free or unknown. Does not delay those who wait."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        return _holder(os.pread(descriptor, 1000, 0)) or "another process"
    finally:
        os.close(descriptor)
    return None


def trouble_with_locks(folder: Path) -> str:
    """What is wrong with locks in `folder`, as a sentence; "" where they work, or nothing can be tried since the folder
    can't be written to."""
    name = folder / f".lock-test-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        with name.open("x") as first, name.open() as other:
            name.unlink()
            try:
                fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                return (
                    _no_locks(folder)
                    if error.errno in _NO_LOCKS
                    else str(system_failed("lock", folder, error))
                )
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # no such folder; or, as it should be: the second lock is refused
        return ""
    return (
        f"the file system that holds {folder} grants a lock twice: two commands at the same time may lose what "
        "one of them writes; work in a clone on a local disk"
    )


def _no_locks(path: Path) -> str:
    return (
        f"the file system that holds {path} has no file locks (NFS without a lock service?): "
        "mount it with locks, or work in a clone on a local disk"
    )


def _holder(data: bytes) -> str | None:
    fields = data.decode(errors="replace").strip().split(" ", 3)
    if len(fields) < 4 or not fields[0].isdigit():
        return None
    pid, host, since, command = fields
    where = "" if host == (os.uname().nodename or "-") else f" on {host}"
    return f"process {pid}{where} ({command}), since {since.replace('T', ' ')}"
