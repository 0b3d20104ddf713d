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
from contextlib import contextmanager
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
        _unsign(descriptor)
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
                    raise Busy(_busy(descriptor, timeout, what))
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
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(errors="replace"), 0)
    except OSError:
        pass  # a full disk: the lock holds all the same, only a message will not name its holder


def _unsign(descriptor: int) -> None:
    try:
        os.ftruncate(descriptor, 0)
    except OSError:
        pass  # a message may name a holder that is gone; the lock must be given back all the same


def holder(path: Path) -> str | None:
    """The holder that the lock file names, for a message; it may be stale."""
    try:
        return _holder(path.read_bytes())
    except OSError:
        return None


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
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        first = os.open(name, flags, 0o600)
    except OSError:
        return ""
    try:
        other = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return _lock_trouble(folder, first, other)
        finally:
            os.close(other)
    finally:
        os.close(first)
        name.unlink(missing_ok=True)


def _lock_trouble(folder: Path, first: int, other: int) -> str:
    """`first` and `other` are of the same file, opened twice: only one of them can have its lock."""
    try:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return _no_locks(folder) if error.errno in _NO_LOCKS else str(system_failed("lock", folder, error))
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return _only_here(folder, os.fstat(first).st_dev)
    return (
        f"the file system that holds {folder} grants a lock twice: two commands at the same time may lose what "
        "one of them writes; work in a clone on a local disk"
    )


def _no_locks(path: Path) -> str:
    return (
        f"the file system that holds {path} has no file locks (NFS without a lock service?): "
        "mount it with locks, or work in a clone on a local disk"
    )


def _only_here(folder: Path, device: int) -> str:
    """The sentence for a network file system that is mounted so that other machines do not see a lock."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
    except OSError:  # not Linux
        return ""
    if not is_local_only(mounts, device):
        return ""
    return (
        f"{folder} is on a network file system whose locks only this machine sees: do not use it from two machines at "
        "the same time, or mount it with locks"
    )


def is_local_only(mounts: str, device: int) -> bool:
    """Whether the file system with this device number is one on the network without locks between machines, as the text
    of Linux's /proc/self/mountinfo says."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if len(fields) > 2 and fields[2] == number and kind[0] in {"nfs", "nfs4", "cifs", "smb3"}:
            options = set(kind[-1].split(","))
            return bool(options & {"nolock", "nobrl", "local_lock=all", "local_lock=flock"})
    return False


def _holder(data: bytes) -> str | None:
    fields = data.decode(errors="replace").strip().split(" ", 3)
    if len(fields) < 4 or not fields[0].isdigit():
        return None
    pid, host, since, command = fields
    where = "" if host == (os.uname().nodename or "-") else f" on {host}"
    return f"process {pid}{where} ({command}), since {since.replace('T', ' ')}"


def _busy(descriptor: int, timeout: float, what: str) -> str:
    who = _holder(os.pread(descriptor, 1000, 0)) or "another process"
    return f"{what} is locked by {who}; waited {timeout:g} s: try again when it is done, or end that process"
