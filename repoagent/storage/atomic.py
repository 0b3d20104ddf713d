"""Write a file so that a reader sees the old one or the new one, and a power cut leaves one of the two."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

from repoagent.errors import Busy, Refused
from repoagent.storage.folders import open_folder, regular, system_failed
from repoagent.storage.locks import flock_until, still_at

_APPEND_TIMEOUT = 10.0
_TEMPORARY = ".tmp-"
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE


def write_whole(path: Path, data: bytes, *, private: bool = True, settled: bool = True) -> None:
    """Replace or make the file `path` with `data`, durably; missing folders are made.

    `private` gives it mode 0600, else what the umask says. A symbolic link at `path` is replaced, not
    followed. Without `settled` the bytes are durable, but the name only when the folder is next synced, as it
    is by a write that is settled. Raises Refused when the folder is not a real one (see folders.py) or the
    system says no.
    """
    os.close(write_held(path, data, private=private, settled=settled))


def write_held(path: Path, data: bytes, *, private: bool = True, settled: bool = True) -> int:
    """Write as `write_whole` does, and return a descriptor that holds the lock of the new file."""
    with open_folder(path.parent, create=True) as parent:
        temporary = f"{_TEMPORARY}{os.getpid()}-{os.urandom(6).hex()}"
        try:
            descriptor = os.open(temporary, _NEW, 0o600 if private else 0o666, dir_fd=parent)
            try:
                with suppress(
                    OSError
                ):  # its owner lives; a file system without locks: `sweep` can't take one either
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _write_all(descriptor, data)
                os.fsync(descriptor)
                os.replace(temporary, path.name, src_dir_fd=parent, dst_dir_fd=parent)
                if settled:
                    os.fsync(parent)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=parent)
                os.close(descriptor)
                raise
        except OSError as error:
            raise system_failed("write", path, error) from error
    return descriptor


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one that a writer has not finished, or left when it was killed."""
    return name.startswith(_TEMPORARY)


def sweep(path: Path) -> None:
    """Remove the temporary files that writers left in the folder `path` when they were killed."""
    try:
        with open_folder(path) as parent:
            with os.scandir(parent) as entries:
                names = [entry.name for entry in entries if is_temporary(entry.name)]
            for name in names:
                # not those whose owner lives, or was quicker
                with suppress(OSError), os.fdopen(os.open(name, os.O_RDONLY | _SAFE, dir_fd=parent)) as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return


def append_line(path: Path, data: bytes, *, marker: bytes = b"") -> None:
    """Append `data` as one line (its newline is added when missing), durably and whole, or not at all.

    Writers take turns by a lock on the file itself. A torn last line, left by a crash, is ended first. With `marker`,
    that byte replaces the first one until all the others are durable, which marks a line that a crash has cut short.
    Raises Busy after 10 s, Refused as `write_whole` does.
    """
    line = data if data.endswith(b"\n") else data + b"\n"
    deadline = time.monotonic() + _APPEND_TIMEOUT
    with open_folder(path.parent, create=True) as parent:
        try:
            while not _append_once(parent, path, line, deadline, marker):
                pass  # the file was moved away while we waited for it
        except OSError as error:
            raise system_failed("append to", path, error) from error


def _append_once(parent: int, path: Path, line: bytes, deadline: float, marker: bytes) -> bool:
    descriptor = os.open(path.name, os.O_RDWR | os.O_APPEND | os.O_CREAT | _SAFE, 0o600, dir_fd=parent)
    try:
        regular(descriptor, path)
        if not flock_until(descriptor, deadline, path):
            raise Busy(
                f"another process has been writing {path} for more than {_APPEND_TIMEOUT:g} s: try again"
            )
        if not still_at(descriptor, parent, path.name):
            return False
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        try:
            _write_all(descriptor, b"\n" * torn + (marker + line[1:] if marker else line))
            os.fsync(descriptor)
            if marker:
                flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
                fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_APPEND)
                os.pwrite(descriptor, line[:1], size + torn)
                os.fsync(descriptor)
        except BaseException:
            os.ftruncate(descriptor, size)
            raise
        if size == 0:
            os.fsync(parent)
        os.utime(parent)  # for those who look at the time of the folder alone
        return True
    finally:
        os.close(descriptor)


def read_regular(path: Path, *, most: int | None = None) -> bytes | None:
    """The bytes of `path`, or None when there is no such file.

    Raises Refused when it has more than `most` bytes, when it, or a folder of `.repoagent` on the way to it, is a
    symbolic link, or it is not a regular file.
    """
    try:
        with open_folder(path.parent) as parent:
            descriptor = os.open(path.name, os.O_RDONLY | _SAFE, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a symbolic link, a socket
            raise Refused(f"{path} is not a regular file: remove it or move it away") from error
        raise system_failed("read", path, error) from error
    try:
        regular(descriptor, path)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read() if most is None else file.read(most + 1)
    finally:
        os.close(descriptor)
    if most is not None and len(data) > most:
        raise Refused(f"{path} has more than {most // 1024} KiB, too much for this file: make it smaller")
    return data


def set_aside(path: Path) -> Path:
    """Rename `path`, whatever it is, to NAME.broken-N with the first free N, and return its new path.

    Raises FileNotFoundError when it is gone (another process was quicker), Refused when the system says no.
    """
    with open_folder(path.parent) as parent:
        try:
            is_folder = stat.S_ISDIR(os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode)
            for number in count(1):
                name = f"{path.name}.broken-{number}"
                # an empty one of the same kind takes the name: a rename replaces like with like
                with suppress(FileExistsError):
                    if is_folder:
                        os.mkdir(name, 0o700, dir_fd=parent)
                    else:
                        os.close(os.open(name, _NEW, 0o600, dir_fd=parent))
                    break
            os.replace(path.name, name, src_dir_fd=parent, dst_dir_fd=parent)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise system_failed("set aside", path, error) from error
    return path.with_name(name)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
