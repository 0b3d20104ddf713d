"""Ways out of a sandbox, as a program: `python -I -S attempts.py WORLD NAME...`. Each runs in its own process.

An attempt works if its effect is seen outside, or if it has written what it should not have got to `src/got-NAME`.
It imports only the standard library, since nothing else may be there.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


class World:
    """The paths of a test, from its file."""

    def __init__(self, data: dict[str, str]) -> None:
        self.top, self.home, self.outside = Path(data["top"]), Path(data["home"]), Path(data["outside"])
        self.victim, self.parent, self.tcp = int(data["victim"]), int(data["parent"]), int(data["tcp"])
        self.tcp6, self.udp, self.unix, self.abstract = (
            int(data["tcp6"]),
            int(data["udp"]),
            data["unix"],
            data["abstract"],
        )
        self.datagrams, self.segment, self.queue = (
            data["datagrams"],
            int(data["segment"]),
            data["queue"],
        )
        self.in_tmp, self.in_shm, self.name = Path(data["in_tmp"]), Path(data["in_shm"]), ""

    def got(self, what: object) -> None:
        """Record a successful escape."""
        (self.top / "src" / f"got-{self.name}").write_text(str(what))


ATTEMPTS: dict[str, Callable[[World], None]] = {}


def attempt(function: Callable[[World], None]) -> Callable[[World], None]:
    ATTEMPTS[function.__name__] = function
    return function


@attempt
def write_outside(world: World) -> None:
    (world.outside / "write_outside").write_text("changed")


@attempt
def create_outside(world: World) -> None:
    (world.outside / "new").write_text("changed")


@attempt
def delete_outside(world: World) -> None:
    (world.outside / "delete_outside").unlink()


@attempt
def truncate_outside(world: World) -> None:
    os.truncate(world.outside / "truncate_outside", 0)


@attempt
def move_in(world: World) -> None:
    (world.outside / "move_in").rename(world.top / "src" / "moved")


@attempt
def change_mode_outside(world: World) -> None:
    (world.outside / "change_mode_outside").chmod(0o777)


@attempt
def write_home(world: World) -> None:
    (world.home / ".profile").write_text("changed")


@attempt
def write_etc(world: World) -> None:
    os.close(os.open("/etc/hosts", os.O_WRONLY | os.O_APPEND))
    world.got("a descriptor")


@attempt
def write_sysctl(world: World) -> None:
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    world.got("a descriptor")


@attempt
def write_tmp(world: World) -> None:
    world.in_tmp.write_text("changed")


@attempt
def write_shared_memory(world: World) -> None:
    world.in_shm.write_text("changed")


@attempt
def write_parent(world: World) -> None:
    (world.top.parent / "made").write_text("changed")


@attempt
def go_up(world: World) -> None:
    os.chdir(world.top / "src")
    Path("../../outside/go_up").write_text("changed")


@attempt
def git_config(world: World) -> None:
    with (world.top / ".git" / "config").open("a") as file:
        file.write("[core]\n\tfsmonitor = evil\n")


@attempt
def git_hook(world: World) -> None:
    (world.top / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")


@attempt
def rename_git(world: World) -> None:
    (world.top / ".git").rename(world.top / "src" / "git")


@attempt
def rename_over_git_file(world: World) -> None:
    (world.top / "linked" / "fake").write_text("gitdir: /nowhere\n")
    (world.top / "linked" / "fake").rename(world.top / "linked" / ".git")


@attempt
def unlink_git_file(world: World) -> None:
    (world.top / "linked" / ".git").unlink()


@attempt
def replace_folder_of_git_file(world: World) -> None:
    (world.top / "linked").rename(world.top / "src" / "elsewhere")
    (world.top / "linked").mkdir()
    (world.top / "linked" / ".git").write_text("gitdir: /nowhere\n")


@attempt
def make_kept_folder(world: World) -> None:
    (world.top / ".repoagent").mkdir(exist_ok=True)
    (world.top / ".repoagent" / "config.toml").write_text("changed")


@attempt
def make_kept_file(world: World) -> None:
    (world.top / ".repoagent").rmdir()
    (world.top / ".repoagent").write_text("changed")


@attempt
def link_git_config(world: World) -> None:
    link = world.top / "src" / "config"
    os.link(world.top / ".git" / "config", link)
    link.write_text("changed")


@attempt
def write_through_link(world: World) -> None:
    link = world.top / "src" / "out"
    link.symlink_to(world.outside)
    (link / "write_through_link").write_text("changed")


@attempt
def swap_for_link(world: World) -> None:
    """One process writes to a folder while another one alternates it between a link and a folder."""
    place, folder, link = (world.top / "src" / name for name in ("place", "folder", "link"))
    place.mkdir()
    link.symlink_to(world.outside)
    swapper = os.fork()
    while not swapper:
        place.rename(folder)
        link.rename(place)
        place.rename(link)
        folder.rename(place)
    target = world.outside / "swap_for_link"
    until = time.monotonic() + 0.2
    while time.monotonic() < until and target.read_text() != "changed":
        try:
            (place / "swap_for_link").write_text("changed")
        except OSError:
            pass
    os.kill(swapper, signal.SIGKILL)


@attempt
def proc_root(world: World) -> None:
    for process in (1, world.victim, world.parent, os.getppid()):
        try:
            Path(f"/proc/{process}/root{world.outside}/proc_root").write_text("changed")
        except OSError:
            pass


@attempt
def proc_cwd(world: World) -> None:
    Path(f"/proc/{world.victim}/cwd/proc_cwd").write_text("changed")


@attempt
def proc_memory(world: World) -> None:
    os.close(os.open(f"/proc/{world.victim}/mem", os.O_RDWR))
    world.got("a descriptor")


@attempt
def proc_environ(world: World) -> None:
    world.got(Path(f"/proc/{world.victim}/environ").read_bytes())


@attempt
def read_hidden(world: World) -> None:
    world.got((world.home / ".ssh" / "id").read_text())


@attempt
def read_hidden_file(world: World) -> None:
    text = (world.home / ".netrc").read_text()
    assert text
    world.got(text)


@attempt
def read_hidden_through_link(world: World) -> None:
    link = world.top / "src" / "keys"
    link.symlink_to(world.home / ".ssh")
    world.got((link / "id").read_text())


@attempt
def read_hidden_by_hard_link(world: World) -> None:
    os.link(world.home / ".ssh" / "id", world.top / "src" / "stolen")
    world.got((world.top / "src" / "stolen").read_text())


@attempt
def read_hidden_of_other(world: World) -> None:
    world.got(Path(f"/proc/{world.victim}/root{world.home}/.ssh/id").read_text())


@attempt
def read_disk(world: World) -> None:
    for disk in sorted(Path("/sys/block").iterdir()):
        try:
            os.close(os.open(f"/dev/{disk.name}", os.O_RDONLY))
        except OSError:
            continue
        world.got(disk)


@attempt
def make_device(world: World) -> None:
    os.mknod(world.top / "src" / "disk", 0o600 | 0o060000, os.makedev(7, 0))
    world.got("a device")


@attempt
def tcp(world: World) -> None:
    with socket.create_connection(("127.0.0.1", world.tcp), timeout=0.5):
        world.got("a connection")


@attempt
def tcp6(world: World) -> None:
    with socket.create_connection(("::1", world.tcp6), timeout=0.5):
        world.got("a connection")


@attempt
def udp(world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"hello", ("127.0.0.1", world.udp))
        sender.settimeout(0.3)
        world.got(sender.recv(100))


@attempt
def raw(world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP):
        world.got("a socket")


@attempt
def packet(world: World) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0):
        world.got("a socket")


@attempt
def unix_socket(world: World) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(world.unix)
        world.got("a connection")


@attempt
def abstract_socket(world: World) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + world.abstract)
        world.got("a connection")


@attempt
def datagram(world: World) -> None:
    """A socket of a pair accepts an address like any other, but is not created by `socket`."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.sendto(b"hello", world.datagrams)
        world.got("a message sent")


@attempt
def raw_datagram(world: World) -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)
    with one, other:
        one.connect(world.datagrams)
        world.got("a connection")


@attempt
def segment_of_other(world: World) -> None:
    """Shared memory of System V has no name in the file system."""
    if world.segment and libc.shmget(world.segment, 8, 0) >= 0:
        world.got("memory")


@attempt
def queue_of_other(world: World) -> None:
    number = {"x86_64": 240, "aarch64": 180}[os.uname().machine]
    if libc.syscall(number, world.queue.encode(), ctypes.c_long(os.O_RDWR), None, None) >= 0:
        world.got("a queue")


@attempt
def limit_other(world: World) -> None:
    """For example, with a limit on CPU time an editor would be killed."""
    resource.prlimit(world.victim, resource.RLIMIT_CORE, (0, 0))
    world.got("it")


@attempt
def memory_of_parent(world: World) -> None:
    os.close(os.open(f"/proc/{world.parent}/mem", os.O_RDWR))
    world.got("a descriptor")


@attempt
def trace_parent(world: World) -> None:
    if libc.ptrace(0x4206, world.parent, None, None) == 0:  # PTRACE_SEIZE, which does not stop it
        world.got("it")


@attempt
def descriptor_of_parent(world: World) -> None:
    process = os.pidfd_open(world.parent)
    if libc.syscall(438, ctypes.c_long(process), ctypes.c_long(1), ctypes.c_long(0)) >= 0:  # pidfd_getfd
        world.got("a descriptor")


@attempt
def kill_other(world: World) -> None:
    os.kill(world.victim, signal.SIGUSR1)
    world.got("it")


@attempt
def trace_other(world: World) -> None:
    if libc.ptrace(16, world.victim, None, None) == 0:  # PTRACE_ATTACH
        world.got("it")


@attempt
def copy_memory_of_other(world: World) -> None:
    one = (ctypes.c_size_t * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
    there = Path(f"/proc/{world.victim}/maps").read_text().partition("-")[0]
    other = (ctypes.c_size_t * 2)(int(there, 16), 8)
    if libc.process_vm_readv(world.victim, one, 1, other, 1, 0) == 8:
        world.got("memory")


@attempt
def new_namespaces(world: World) -> None:
    if libc.unshare(0x10000000 | 0x00020000) == 0:  # a user and its mounts
        world.got("namespaces")


@attempt
def clone_namespaces(world: World) -> None:
    number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    child = libc.syscall(number, ctypes.c_long(0x10000000 | signal.SIGCHLD), None, None, None, None)
    if child == 0:
        os._exit(0)
    if child > 0:
        world.got("namespaces")


@attempt
def mount_over(world: World) -> None:
    if libc.mount(b"none", os.fsencode(world.top / ".git"), b"tmpfs", 0, None) == 0:
        libc.umount2(os.fsencode(world.top / ".git"), 2)  # where it works it is the machine's own
        world.got("a mount")


@attempt
def unmount(world: World) -> None:
    for path in (world.top / ".git", world.home / ".ssh"):
        libc.umount2(os.fsencode(path), 2)
    world.got((world.home / ".ssh" / "id").read_text())


@attempt
def use_keys(world: World) -> None:
    number = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
    if libc.syscall(number, ctypes.c_long(0), ctypes.c_long(-4), ctypes.c_long(0)) > 0:
        world.got("a keyring")


@attempt
def io_uring(world: World) -> None:
    if libc.syscall(425, ctypes.c_long(4), ctypes.create_string_buffer(120)) >= 0:
        world.got("a ring")


@attempt
def gain_privileges(world: World) -> None:
    status = dict(
        line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line
    )
    if status["NoNewPrivs"] == "0":
        world.got("the right to execute what is setuid")


def main() -> None:
    world = World(json.loads(Path(sys.argv[1]).read_text()))
    for name in sys.argv[2:]:
        world.name = name
        child = os.fork()
        if not child:
            signal.alarm(10)
            try:
                ATTEMPTS[name](world)
            except OSError as error:
                print(f"{name}: {error}", flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
