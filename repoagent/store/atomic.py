"""Write a file so that a reader sees the old one or the new one, and a power cut leaves one of the two."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from pathlib import Path

from repoagent.errors import Busy, Refused
from repoagent.store.folders import failed, folder, regular
from repoagent.store.locks import flock_until, still_at

_APPEND_TIMEOUT = 10.0
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def write_whole(path: Path, data: bytes, *, private: bool = True) -> None:
    """Replace or make the file `path` with `data`, durably; missing folders are made.

    `private` gives it mode 0600, else what the umask says. A symbolic link at `path` is replaced, not
    followed. Raises Refused when the folder is not a real one (see folders.py) or the system says no.
    """
    with folder(path.parent, create=True) as parent:
        temporary = f".tmp-{os.getpid()}-{secrets.token_hex(6)}"
        try:
            descriptor = os.open(
                temporary,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE,
                0o600 if private else 0o666,
                dir_fd=parent,
            )
            try:
                try:
                    _write_all(descriptor, data)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                os.replace(temporary, path.name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                os.unlink(temporary, dir_fd=parent)
                raise
            os.fsync(parent)
        except OSError as error:
            raise failed("write", path, error) from error


def append_line(path: Path, data: bytes) -> None:
    """Append `data` as one line (its newline is added when missing), durably and whole, or not at all.

    Writers take turns by a lock on the file itself. A torn last line, left by a crash, is ended first.
    Raises Busy after 10 s, Refused as `write_whole` does.
    """
    line = data if data.endswith(b"\n") else data + b"\n"
    deadline = time.monotonic() + _APPEND_TIMEOUT
    with folder(path.parent, create=True) as parent:
        try:
            while not _append_once(parent, path, line, deadline):
                pass  # the file was moved away while we waited for it
        except OSError as error:
            raise failed("append to", path, error) from error


def _append_once(parent: int, path: Path, line: bytes, deadline: float) -> bool:
    descriptor = os.open(path.name, os.O_RDWR | os.O_APPEND | os.O_CREAT | _SAFE, 0o600, dir_fd=parent)
    try:
        regular(descriptor, path)
        if not flock_until(descriptor, deadline, path):
            raise Busy(
                f"{path} is being written by another process for more than {_APPEND_TIMEOUT:g} s: try again"
            )
        if not still_at(descriptor, parent, path.name):
            return False
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        try:
            _write_all(descriptor, b"\n" + line if torn else line)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
        if size == 0:
            os.fsync(parent)
        return True
    finally:
        os.close(descriptor)


def read_regular(path: Path) -> bytes | None:
    """The bytes of `path`, or None when there is no such file.

    Raises Refused when it, or a folder of `.repoagent` on the way to it, is a symbolic link, or it is no
    regular file.
    """
    try:
        with folder(path.parent) as parent:
            descriptor = os.open(path.name, os.O_RDONLY | _SAFE, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a symbolic link, a socket
            raise Refused(f"{path} is not a regular file: remove it or move it away") from error
        raise failed("read", path, error) from error
    try:
        regular(descriptor, path)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def set_aside(path: Path) -> Path:
    """Rename `path`, whatever it is, to NAME.broken-N with the first free N, and return its new path.

    Raises FileNotFoundError when it is gone (another process was quicker), Refused when the system says no.
    """
    with folder(path.parent) as parent:
        try:
            is_folder = stat.S_ISDIR(os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode)
            name = _reserve(parent, path.name, is_folder=is_folder)
            os.replace(path.name, name, src_dir_fd=parent, dst_dir_fd=parent)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise failed("set aside", path, error) from error
    return path.with_name(name)


def _reserve(parent: int, name: str, *, is_folder: bool) -> str:
    """Make an empty file (or folder: a rename replaces like with like) under the first free name."""
    number = 1
    while True:
        candidate = f"{name}.broken-{number}"
        try:
            if is_folder:
                os.mkdir(candidate, dir_fd=parent)
            else:
                os.close(os.open(candidate, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=parent))
        except FileExistsError:
            number += 1
        else:
            return candidate


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
