"""System calls that the standard library does not offer, through ctypes, including the three of Landlock.

Each raises OSError as os.* does. Landlock limits which files this process and its children may open; see landlock(7).
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable, Iterator

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18

_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1
_OPENAT2, _MOUNT_SETATTR = 437, 442  # recent calls have the same number on every architecture
_NO_SYMLINKS = 4
_SIOCSIFFLAGS, _IFF_UP, _AF_INET, _SOCK_DGRAM = 0x8914, 1, 2, 2


def _checked(result: int, name: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    return result


def syscall(number: int, *args: object) -> int:
    """Make a system call by its number; integers are passed as 64 bits."""
    sent = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    return _checked(_libc.syscall(ctypes.c_long(number), *sent), f"system call {number}")


def prctl(option: int, value: int = 0, extra: object = None) -> None:
    """Call prctl(2) with one or two arguments."""
    last = ctypes.c_ulong(0) if extra is None else extra
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(option, ctypes.c_ulong(value), last, zero, zero), f"prctl {option}")


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    coded = [os.fsencode(text) for text in (source, target, kind)]
    _checked(
        _libc.mount(*coded, ctypes.c_ulong(flags), os.fsencode(data) if data else None), f"mount {target}"
    )


def set_read_only(target: str, on: bool, *, below: bool) -> None:
    """Make the mount at `target` read-only or writable, and with `below` also all mounts below it."""
    words = (_MOUNT_ATTR_RDONLY, 0) if on else (0, _MOUNT_ATTR_RDONLY)
    attributes = (ctypes.c_uint64 * 4)(*words, 0, 0)
    syscall(
        _MOUNT_SETATTR,
        _AT_FDCWD,
        ctypes.c_char_p(os.fsencode(target)),
        _AT_RECURSIVE if below else 0,
        ctypes.byref(attributes),
        ctypes.sizeof(attributes),
    )


def open_path(path: str) -> int:
    """An O_PATH descriptor for `path`. Raises OSError (ELOOP) if any part of it is a symbolic link."""
    open_how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_CLOEXEC, 0, _NO_SYMLINKS)
    name = ctypes.c_char_p(os.fsencode(path))
    return syscall(_OPENAT2, _AT_FDCWD, name, ctypes.byref(open_how), ctypes.sizeof(open_how))


def drop_capabilities(retained: int = 0) -> None:
    """Drop all capabilities except the bits in `retained`, including those that a program run as root would regain."""
    for capability in range(64):
        if not retained >> capability & 1:
            try:
                prctl(PR_CAPBSET_DROP, capability)
            except OSError:  # no such capability, or not permitted
                break
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    _checked(_libc.capget(header, data), "capget")
    for half in (0, 1):
        keep = retained >> (32 * half) & 0xFFFFFFFF
        data[half * 3] &= keep
        data[half * 3 + 1] &= keep
        data[half * 3 + 2] = 0
    _checked(_libc.capset(header, data), "capset")


def bring_up_loopback() -> None:
    """Enable 127.0.0.1 in a new network namespace, so that programs in it can connect to each other."""
    descriptor = _checked(_libc.socket(_AF_INET, _SOCK_DGRAM, 0), "socket")
    try:
        request = b"lo".ljust(16, b"\0") + _IFF_UP.to_bytes(2, "little") + bytes(22)
        _checked(
            _libc.ioctl(descriptor, ctypes.c_ulong(_SIOCSIFFLAGS), ctypes.create_string_buffer(request)), "lo"
        )
    finally:
        os.close(descriptor)


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
WRITE = ((1 << 16) - 1) & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)  # includes reading; no devices
DEVICE = READ_FILE | WRITE_FILE | IOCTL_DEV | TRUNCATE
_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_BIND_AND_CONNECT_TCP = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


def landlock_abi() -> int:
    """The version of Landlock in this kernel; 0 if it is missing or switched off."""
    try:
        return syscall(_CREATE_RULESET, ctypes.c_void_p(None), 0, _VERSION)
    except OSError:
        return 0


def restrict_files(rules: Iterable[tuple[str | int, int]] | None, *, network: bool) -> None:
    """Restrict this process to files that `rules` allow. Each rule is a path or descriptor, and the rights below it;
    None allows all files.

    Without `network`, TCP is denied, too (since version 4 of Landlock). Signals and abstract sockets reach only
    processes that are confined with this one (since version 6). Paths that do not exist, or contain a symbolic link,
    are skipped. The caller must set `no_new_privs` first.
    """
    version = landlock_abi()
    handled = (1 << (13 if version < 2 else 14 if version < 3 else 15 if version < 5 else 16)) - 1
    handled = 0 if rules is None else handled
    tcp = _BIND_AND_CONNECT_TCP if version >= 4 and not network else 0
    scoped = _ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0
    attributes = (ctypes.c_uint64 * 3)(handled, tcp, scoped)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = syscall(_CREATE_RULESET, ctypes.byref(attributes), size, 0)
    try:
        for target, rights in rules or ():
            try:
                descriptor = open_path(target) if isinstance(target, str) else target
            except OSError:  # missing, not accessible, or a link by now: it stays denied
                continue
            try:
                is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
                allowed = rights & handled & (handled if is_folder else _OF_FILES)
                rule = allowed.to_bytes(8, "little") + descriptor.to_bytes(4, "little")
                syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.create_string_buffer(rule, len(rule)), 0)
            finally:
                if isinstance(target, str):
                    os.close(descriptor)
        syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def paths_without(root: str, excluded: Iterable[str]) -> Iterator[str]:
    """The paths that together cover `root` without `excluded`: the folder itself or entries in it, never links.

    Rules only ever allow more, so a folder with an exception is covered by rules for its entries.
    """
    inside = [path for path in excluded if is_within(path, root)]
    if not inside:
        yield root
    elif root not in inside:
        try:
            with os.scandir(root) as entries:
                children = [entry.path for entry in entries if not entry.is_symlink()]
        except PermissionError:  # a command cannot look into it either
            return
        for child in children:
            yield from paths_without(child, inside)


def is_within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or below it, comparing names only."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
