"""Landlock: which files this process and its children may open; see landlock(7)."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable, Iterator

from .kernel import open_path, syscall

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


def abi() -> int:
    """The version of Landlock in this kernel; 0 if it is missing or switched off."""
    try:
        return syscall(_CREATE_RULESET, ctypes.c_void_p(None), 0, _VERSION)
    except OSError:
        return 0


def restrict(rules: Iterable[tuple[str | int, int]], *, network: bool) -> None:
    """Open only what `rules` allow from now on: each is a path or descriptor, and the rights to it and all below.

    Without `network`, TCP is denied, too (since version 4). Signals and abstract sockets reach only processes that are
    confined with this one (since 6). Paths that do not exist, or contain a symbolic link, are skipped. Set
    `no_new_privs` before.
    """
    version = abi()
    handled = (1 << (13 if version < 2 else 14 if version < 3 else 15 if version < 5 else 16)) - 1
    tcp = _BIND_AND_CONNECT_TCP if version >= 4 and not network else 0
    scoped = _ABSTRACT_SOCKETS_AND_SIGNALS if version >= 6 else 0
    size = 8 if version < 4 else 16 if version < 6 else 24
    attributes = (ctypes.c_uint64 * 3)(handled, tcp, scoped)
    ruleset = syscall(_CREATE_RULESET, ctypes.byref(attributes), size, 0)
    try:
        for target, rights in rules:
            _allow(ruleset, target, rights & handled)
        syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def scope() -> None:
    """Restrict abstract sockets and signals to processes that are confined with this one (version 6)."""
    attributes = (ctypes.c_uint64 * 3)(0, 0, _ABSTRACT_SOCKETS_AND_SIGNALS)
    ruleset = syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)
    try:
        syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, target: str | int, rights: int) -> None:
    try:
        descriptor = open_path(target) if isinstance(target, str) else target
    except OSError:  # missing, not accessible, or a link by now: it stays denied
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        rule = rights.to_bytes(8, "little") + descriptor.to_bytes(4, "little")
        syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.create_string_buffer(rule, len(rule)), 0)
    finally:
        if isinstance(target, str):
            os.close(descriptor)


def paths_without(root: str, excluded: Iterable[str]) -> Iterator[str]:
    """The paths that together are `root` without `excluded`: the folder itself, or entries of it; no links.

    Rules only ever allow more, so a folder with an exception is allowed by its entries.
    """
    inside = [path for path in excluded if within(path, root)]
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


def within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or below it, comparing names only."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
