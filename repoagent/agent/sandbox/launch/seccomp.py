"""A filter of system calls for seccomp(2), assembled by hand as classic BPF.

It denies calls that undo the confinement (mounts, namespaces, memory of other processes) or bypass it (sockets,
io_uring, file handles, input to a terminal), and those that only administrators need. All other calls are allowed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Sequence

from .syscalls import PR_SET_SECCOMP, prctl

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEW* except NEWTIME, which only unshare accepts
_NEW_TIME = 0x80
_STREAM, _PACKETS = 1, 5  # SOCK_*
_KIND_OF_SOCKET = 0xF
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

# name: (x86_64, aarch64); calls since Linux 5.1 have the same number everywhere
DENIED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "userfaultfd": (323, 282), "bpf": (321, 280), "perf_event_open": (298, 241),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "setns": (308, 268),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "syslog": (103, 116), "vhangup": (153, 58), "sethostname": (170, 161),
    "setdomainname": (171, 162), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "iopl": (172, -1), "ioperm": (173, -1),
}  # fmt: skip
# Denied without namespaces, because processes and their messages are then shared with the whole system.
SHARED = {
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semctl": (66, 191),
    "semop": (65, 193), "semtimedop": (220, 192), "msgget": (68, 186), "msgctl": (71, 187), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "mq_open": (240, 180), "mq_unlink": (241, 181),
}  # fmt: skip
WATCHED = {"socket": (41, 198), "ioctl": (16, 29), "clone": (56, 220), "clone3": (435, 435), "unshare": (272, 97),
           "truncate": (76, 45), "socketpair": (53, 199), "prlimit64": (302, 261)}  # fmt: skip

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in seccomp_data; low halves of the arguments


def supported() -> bool:
    """Whether the tables have the numbers of this machine's system calls."""
    return os.uname().machine in _ARCHITECTURES


def program(
    families: Sequence[int], *, deny_truncate: bool = False, shared: bool = False, machine: str = ""
) -> bytes:
    """The filter program. It lets `socket` use only `families`. `deny_truncate`: for a Landlock version that does not
    control truncate; `shared`: the command has no namespaces of its own.

    Arguments are compared by their low 32 bits, as in the kernel. Calls of another architecture fail with ENOSYS.
    """
    machine = machine or os.uname().machine
    column = ("x86_64", "aarch64").index(machine)
    number = {name: row[column] for name, row in {**DENIED, **SHARED, **WATCHED}.items() if row[column] >= 0}
    code = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, _ARCHITECTURES[machine], yes=1),
        _deny(errno.ENOSYS),
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, 0x40000000, no=1),  # the x32 calls of x86_64
        _deny(errno.ENOSYS),
    ]
    denied = [name for name in DENIED if name in number] + ["truncate"] * deny_truncate
    denied += [*SHARED] if shared else []
    for name in denied:
        code += [_step(_EQUAL, number[name], no=1), _deny(errno.EPERM)]
    # the flags of clone3 are in memory, which a filter cannot read; the C library falls back to `clone`
    code += [_step(_EQUAL, number["clone3"], no=1), _deny(errno.ENOSYS)]
    code += _when(
        number["clone"], [_step(_LOAD, _FIRST), _step(_ANY_BIT, _NEW_NAMESPACES, no=1), _deny(errno.EPERM)]
    )
    namespaces = _NEW_NAMESPACES | _NEW_TIME
    code += _when(
        number["unshare"], [_step(_LOAD, _FIRST), _step(_ANY_BIT, namespaces, no=1), _deny(errno.EPERM)]
    )
    no_input = [step for call in _TERMINAL_INPUT for step in (_step(_EQUAL, call, no=1), _deny(errno.EPERM))]
    code += _when(number["ioctl"], [_step(_LOAD, _SECOND), *no_input])
    if shared:
        code += _when(number["prlimit64"], [_step(_LOAD, _FIRST), *_only([0])])  # itself
        # a datagram (or raw) pair could send and connect to any name
        kind = [_step(_LOAD, _SECOND), _step(_AND, _KIND_OF_SOCKET)]
        code += _when(number["socketpair"], [*kind, *_only([_STREAM, _PACKETS])])
    code += _when(number["socket"], [_step(_LOAD, _FIRST), *_only(families)])
    return b"".join([*code, _step(_RETURN, _ALLOW)])


def install(filter_: bytes) -> None:
    """Filter the system calls of this process and its children from now on. Set `no_new_privs` first."""
    buffer = ctypes.create_string_buffer(filter_, len(filter_))
    count = len(filter_) // 8
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", count, ctypes.addressof(buffer)), 16)
    prctl(PR_SET_SECCOMP, 2, head)


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


def _deny(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _when(number: int, then: list[bytes]) -> list[bytes]:
    """Run `then` for one system call only, and allow the call if it falls through."""
    return [_step(_EQUAL, number, no=len(then) + 1), *then, _step(_RETURN, _ALLOW)]


def _only(values: Iterable[int]) -> list[bytes]:
    allowed = [step for value in values for step in (_step(_EQUAL, value, no=1), _step(_RETURN, _ALLOW))]
    return [*allowed, _deny(errno.EPERM)]
