"""The filter of system calls, for both architectures, executed by a small interpreter of classic BPF."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from repoagent.agent.sandbox.launch.seccomp import DENIED, SHARED, WATCHED, program

HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),
}
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
COLUMN = {"x86_64": 0, "aarch64": 1}
ALL = {**DENIED, **SHARED, **WATCHED}
ALLOWED, EPERM, ENOSYS = None, errno.EPERM, errno.ENOSYS
machines = pytest.mark.parametrize("machine", AUDIT)


def judge(filter_: bytes, machine: str, number: int, *arguments: int) -> int | None:
    """The result of the filter for a call: an errno, or None if it is allowed."""
    data = struct.pack("<iIQ6Q", number, AUDIT[machine], 0, *arguments, *[0] * (6 - len(arguments)))
    steps = list(struct.iter_unpack("<HBBI", filter_))
    at, value = 0, 0
    while True:
        code, yes, no, operand = steps[at]
        at += 1
        if code == 0x20:
            value = struct.unpack_from("<I", data, operand)[0]
        elif code == 0x54:
            value &= operand
        elif code == 0x06:
            return None if operand == 0x7FFF0000 else operand & 0xFFFF
        else:
            holds = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[code]
            at += yes if holds else no


def number(machine: str, name: str) -> int:
    return ALL[name][COLUMN[machine]]


@machines
def test_denied_calls(machine: str) -> None:
    filter_ = program((1,), machine=machine)
    numbers = {number(machine, name) for name in DENIED} - {-1}
    assert {call for call in numbers if judge(filter_, machine, call) != EPERM} == set()
    others = set(range(460)) - numbers - {number(machine, name) for name in WATCHED}
    assert {judge(filter_, machine, other) for other in others} == {ALLOWED}


@machines
def test_calls_denied_without_namespaces(machine: str) -> None:
    for shared, expected in ((False, ALLOWED), (True, EPERM)):
        filter_ = program((1,), machine=machine, shared=shared)
        assert {judge(filter_, machine, number(machine, name)) for name in SHARED} == {expected}
        pair, limit = number(machine, "socketpair"), number(machine, "prlimit64")
        kinds = [judge(filter_, machine, pair, 1, kind) for kind in (1, 5, 2, 3, 0x80802)]
        assert kinds == [ALLOWED, ALLOWED, *[expected] * 3]
        limits = [judge(filter_, machine, limit, process) for process in (0, 1, 7000)]
        assert limits == [ALLOWED, expected, expected]


@machines
def test_calls_with_checked_arguments(machine: str) -> None:
    filter_ = program((1, 2), machine=machine)
    cases = {
        ("socket", (1,), (2,)): None,
        ("socket", (10,), (16,), (40,), (1 << 32 | 17,)): EPERM,
        ("ioctl", (0, 0x5401)): None,
        ("ioctl", (0, 0x5412), (0, 0x541C), (0, 1 << 32 | 0x5412)): EPERM,
        ("clone3", ()): ENOSYS,
        ("clone", (17,), (0x003D0F00,)): None,
        ("clone", (0x10000011,), (0x00020000,)): EPERM,
        ("unshare", (0x400,)): None,
        ("unshare", (0x80,), (0x20000000,)): EPERM,
        ("truncate", ()): None,
    }
    for (name, *calls), expected in cases.items():
        for arguments in calls:
            assert judge(filter_, machine, number(machine, name), *arguments) == expected, (name, arguments)
    old = program((), machine=machine, deny_truncate=True)
    assert judge(old, machine, number(machine, "truncate")) == EPERM


@machines
def test_calls_of_another_architecture_fail(machine: str) -> None:
    other = next(name for name in AUDIT if name != machine)
    filter_ = program((1,), machine=machine)
    assert judge(filter_, other, 0) == ENOSYS
    assert judge(filter_, machine, 0x40000000 | 5) == ENOSYS


@machines
def test_numbers_match_the_system_headers(machine: str) -> None:
    header = next((path for path in map(Path, HEADERS[machine]) if path.exists()), None)
    if not header:
        pytest.skip("no headers of the kernel here")
    known = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()))
    ours = {name: str(number(machine, name)) for name in known.keys() & ALL.keys()}
    assert len(ours) > 40
    assert {name: value for name, value in ours.items() if value not in (known[name], "-1")} == {}
