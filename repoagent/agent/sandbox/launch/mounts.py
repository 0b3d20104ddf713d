"""A private view of the file system: read-only except for some folders, some paths covered; see namespaces(7)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from stat import S_ISDIR

from .supervisor import FAILED, exit_code
from .syscalls import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    PR_SET_PDEATHSIG,
    bring_up_loopback,
    mount,
    open_path,
    prctl,
    set_read_only,
    unshare,
)

_SAFE = MS_NOSUID | MS_NODEV
_SHARED_MEMORY = "/dev/shm"


def enter(steps: Sequence[tuple[str, str, str]], *, network: bool, shared_memory: int) -> None:
    """Continue in new namespaces, in a child; this process and the init of the namespaces wait for it, never return.

    `steps` are (what, source, target), see `bubblewrap.Step`. The user id is the same as outside. Raises OSError.
    """
    user, group = os.getuid(), os.getgid()
    spaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWUTS
    unshare(spaces | (0 if network else CLONE_NEWNET))
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(descriptor, text.encode())
        os.close(descriptor)
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    sources = {source: open_path(source) for _, source, _ in steps if source}
    set_read_only("/", True, below=True)
    sources[""] = _empty_file()
    for what, source, target in steps:
        _apply(what, sources[source], target)
    for what, _, target in steps:
        if what == "folder":
            set_read_only(target, True, below=False)
    _mount_devices(shared_memory)
    for descriptor in sources.values():
        os.close(descriptor)
    if not network:
        bring_up_loopback()
    _wait_for_child()
    prctl(PR_SET_PDEATHSIG, 9)
    mount("proc", "/proc", "proc", _SAFE | MS_NOEXEC)
    _wait_for_child()


def _empty_file() -> int:
    """A descriptor of an empty file that cannot be written. It is a regular file, which git reads as a changed one;
    git rejects other types. It is on a mount that `_mount_devices` covers."""
    try:
        mount("tmpfs", _SHARED_MEMORY, "tmpfs", _SAFE, "size=4k,mode=755")
    except FileNotFoundError:
        return open_path("/dev/null")
    name = f"{_SHARED_MEMORY}/empty"
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444))
    return open_path(name)


def _apply(what: str, source: int, target: str) -> None:
    is_folder = what == "folder" or S_ISDIR(os.fstat(source).st_mode)
    if (mount_point := _open_mount_point(target, is_folder=is_folder)) is None:
        return
    try:
        if what == "folder":
            mount("tmpfs", f"/proc/self/fd/{mount_point}", "tmpfs", _SAFE, "size=64k,mode=755")
            return
        mount(f"/proc/self/fd/{source}", f"/proc/self/fd/{mount_point}", "", MS_BIND | MS_REC)
    finally:
        os.close(mount_point)
    if what in {"write", "pin"}:  # by now the mount of the source is read-only
        try:
            set_read_only(target, False, below=True)
        except PermissionError:  # something below it is read-only for good
            set_read_only(target, False, below=False)
    elif what in {"keep", "file"}:
        set_read_only(target, True, below=True)


def _open_mount_point(target: str, *, is_folder: bool) -> int | None:
    """A descriptor of `target`, made if it is missing, in a folder that an earlier step covered; None if that fails."""
    try:
        return open_path(target)
    except FileNotFoundError:
        pass
    try:
        os.makedirs(target if is_folder else os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
        if not is_folder:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o444))
        return open_path(target)
    except FileNotFoundError:
        return None


def _mount_devices(shared_memory: int) -> None:
    """Mount private terminals and shared memory."""
    with suppress(FileNotFoundError):
        mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
        mount("/dev/pts/ptmx", "/dev/ptmx", "", MS_BIND)
    with suppress(FileNotFoundError):
        mount("tmpfs", _SHARED_MEMORY, "tmpfs", _SAFE, f"size={shared_memory},mode=1777")


def _wait_for_child() -> None:
    """Continue in a child; this process waits for it, reaps orphans, and exits with the child's exit code."""
    child = os.fork()
    if not child:
        return
    code = FAILED
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    while True:
        process, status = os.waitpid(-1, 0)
        if process == child:
            code = exit_code(status)
            break
    os._exit(code)
