"""Atomic, durable writes: a reader sees either the old file or the new one, even after a power cut."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from repoagent.errors import Refused
from repoagent.storage.folders import open_folder, require_regular, system_failed
from repoagent.storage.locks import open_locked

_APPEND_TIMEOUT = 10.0
_TEMPORARY = ".tmp-"
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE


def write_whole(path: Path, data: bytes, *, private: bool = True, settled: bool = True) -> None:
    """Durably write `data` to the file `path`, and create missing folders. A symbolic link at `path` is replaced, not
    followed.

    With `private`, the mode is 0600; otherwise the umask decides. Without `settled`, the name becomes durable only with
    the folder's next sync. Raises Refused if the folder is not a real one (see folders.py) or a system call fails.
    """
    os.close(write_locked(path, data, private=private, settled=settled))


def write_locked(path: Path, data: bytes, *, private: bool = True, settled: bool = True) -> int:
    """Write as `write_whole` does, and return a descriptor that locks the new file."""
    with open_folder(path.parent, create=True) as parent:
        try:
            while True:  # until there is a temporary file that is locked as long as its owner is alive
                temporary = f"{_TEMPORARY}{os.getpid()}-{os.urandom(6).hex()}"
                descriptor = os.open(temporary, _NEW, 0o600 if private else 0o666, dir_fd=parent)
                try:
                    with suppress(OSError):
                        fcntl.flock(descriptor, fcntl.LOCK_EX)
                    os.stat(temporary, dir_fd=parent)
                    break
                except FileNotFoundError:  # another process removed it before it was locked
                    os.close(descriptor)
            try:
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


def remove_temporary_files(path: Path) -> None:
    """Remove the temporary files that killed writers left in the folder `path`."""
    try:
        with open_folder(path) as parent:
            with os.scandir(parent) as entries:
                names = [entry.name for entry in entries if entry.name.startswith(_TEMPORARY)]
            for name in names:
                # skip files whose owner is alive or has just renamed them
                with suppress(OSError), os.fdopen(os.open(name, os.O_RDONLY | _SAFE, dir_fd=parent)) as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return


def append_line(path: Path, data: bytes, *, marker: bytes = b"") -> None:
    """Append `data` as one line, durably and completely, or not at all.

    If a crash left an incomplete last line, a newline is added to it first. With `marker`, that byte takes the place of
    the first byte of the line until all others are durable. Raises Busy if another process holds the lock for 10 s, and
    Refused as `write_whole` does.
    """
    line = data if data.endswith(b"\n") else data + b"\n"
    with locked_file(path) as descriptor:
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
        except BaseException as error:
            os.ftruncate(descriptor, size)
            if isinstance(error, OSError):
                raise system_failed("append to", path, error) from error
            raise
        with open_folder(path.parent) as parent:
            if size == 0:
                os.fsync(parent)
            os.utime(parent)  # for readers that check the time of the folder only


@contextmanager
def locked_file(path: Path) -> Iterator[int]:
    """Open the file `path` for appending, and lock it against other writers during the block. It is created if missing.
    Raises Busy if another process holds the lock for 10 s, and Refused as `write_whole` does."""

    def busy(_: bytes) -> str:
        return f"another process has been writing {path} for more than {_APPEND_TIMEOUT:g} s: try again"

    descriptor = open_locked(path, _APPEND_TIMEOUT, busy, os.O_APPEND)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_regular(path: Path, *, most: int | None = None) -> bytes | None:
    """The content of `path`; None if there is no such file. Raises Refused if it has more than `most` bytes or is not a
    regular file, or if a component of the path, from `.repoagent` on, is a symbolic link."""
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
        require_regular(descriptor, path)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read() if most is None else file.read(most + 1)
    finally:
        os.close(descriptor)
    if most is not None and len(data) > most:
        raise Refused(f"{path} is larger than the limit of {most // 1024} KiB: make it smaller")
    return data


def move_durably(path: Path, to: Path) -> bool:
    """Rename a file or folder and sync both parents; return False if it does not exist. Raises Refused if a system call
    fails."""
    try:
        with open_folder(path.parent) as old, open_folder(to.parent, create=True) as new:
            os.rename(path.name, to.name, src_dir_fd=old, dst_dir_fd=new)
            os.fsync(new)
            os.fsync(old)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise system_failed("move", path, error) from error
    return True


def set_aside(path: Path) -> Path:
    """Rename a file of any type to NAME.broken-N with the lowest free N, and return the new path. Raises
    FileNotFoundError if it does not exist, Refused if a system call fails."""
    with open_folder(path.parent) as parent:
        try:
            is_folder = stat.S_ISDIR(os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode)
            for number in count(1):
                name = f"{path.name}.broken-{number}"
                # reserve the name by an empty file or folder, which the rename replaces
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


def set_aside_broken(path: Path, why: str, warn: Callable[[str], None]) -> None:
    """Rename `path` with a warning, unless another process has just done so."""
    try:
        moved = set_aside(path)
    except FileNotFoundError:
        return
    warn(f"{path} {why}; renamed it to {moved.name}")


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
