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


class Attempts:
    """Each method is an attempt; the attributes are from the file of a test."""

    def __init__(self, data: dict[str, object]) -> None:
        vars(self).update(data)
        for name in ("top", "home", "outside", "in_tmp", "in_shm"):
            setattr(self, name, Path(data[name]))

    def _got(self, what: object) -> None:
        """Record a successful escape."""
        (self.top / "src" / f"got-{self.name}").write_text(str(what))

    def delete_outside(self) -> None:
        (self.outside / "delete_outside").unlink()

    def truncate_outside(self) -> None:
        os.truncate(self.outside / "truncate_outside", 0)

    def move_in(self) -> None:
        (self.outside / "move_in").rename(self.top / "src" / "moved")

    def change_mode_outside(self) -> None:
        (self.outside / "change_mode_outside").chmod(0o777)

    def go_up(self) -> None:
        os.chdir(self.top / "src")
        Path("../../outside/go_up").write_text("changed")

    def git_config(self) -> None:
        with (self.top / ".git" / "config").open("a") as file:
            file.write("[core]\n\tfsmonitor = evil\n")

    def rename_git(self) -> None:
        (self.top / ".git").rename(self.top / "src" / "git")

    def rename_over_git_file(self) -> None:
        (self.top / "linked" / "fake").write_text("gitdir: /nowhere\n")
        (self.top / "linked" / "fake").rename(self.top / "linked" / ".git")

    def unlink_git_file(self) -> None:
        (self.top / "linked" / ".git").unlink()

    def replace_folder_of_git_file(self) -> None:
        (self.top / "linked").rename(self.top / "src" / "elsewhere")
        (self.top / "linked").mkdir()
        (self.top / "linked" / ".git").write_text("gitdir: /nowhere\n")

    def make_kept_folder(self) -> None:
        (self.top / ".repoagent").mkdir(exist_ok=True)
        (self.top / ".repoagent" / "config.toml").write_text("changed")

    def make_kept_file(self) -> None:
        (self.top / ".repoagent").rmdir()
        (self.top / ".repoagent").write_text("changed")

    def link_git_config(self) -> None:
        link = self.top / "src" / "config"
        os.link(self.top / ".git" / "config", link)
        link.write_text("changed")

    def write_through_link(self) -> None:
        link = self.top / "src" / "out"
        link.symlink_to(self.outside)
        (link / "write_through_link").write_text("changed")

    def swap_for_link(self) -> None:
        """One process writes to a folder while another one alternates it between a link and a folder."""
        place, folder, link = (self.top / "src" / name for name in ("place", "folder", "link"))
        place.mkdir()
        link.symlink_to(self.outside)
        swapper = os.fork()
        while not swapper:
            place.rename(folder)
            link.rename(place)
            place.rename(link)
            folder.rename(place)
        target = self.outside / "swap_for_link"
        until = time.monotonic() + 0.2
        while time.monotonic() < until and target.read_text() != "changed":
            try:
                (place / "swap_for_link").write_text("changed")
            except OSError:
                pass
        os.kill(swapper, signal.SIGKILL)

    def proc_root(self) -> None:
        for process in (1, self.victim, self.parent, os.getppid()):
            try:
                Path(f"/proc/{process}/root{self.outside}/proc_root").write_text("changed")
            except OSError:
                pass

    def read_hidden_through_link(self) -> None:
        link = self.top / "src" / "keys"
        link.symlink_to(self.home / ".ssh")
        self._got((link / "id").read_text())

    def read_hidden_by_hard_link(self) -> None:
        os.link(self.home / ".ssh" / "id", self.top / "src" / "stolen")
        self._got((self.top / "src" / "stolen").read_text())

    def read_disk(self) -> None:
        for disk in sorted(Path("/sys/block").iterdir()):
            try:
                os.close(os.open(f"/dev/{disk.name}", os.O_RDONLY))
            except OSError:
                continue
            self._got(disk)

    def make_device(self) -> None:
        os.mknod(self.top / "src" / "disk", 0o600 | 0o060000, os.makedev(7, 0))
        self._got("a device")

    def udp(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"hello", ("127.0.0.1", self.udp_port))
            sender.settimeout(0.3)
            self._got(sender.recv(100))

    def unix_socket(self) -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self.unix)
            self._got("a connection")

    def abstract_socket(self) -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("\0" + self.abstract)
            self._got("a connection")

    def datagram(self) -> None:
        """A socket of a pair accepts an address like any other, but is not created by `socket`."""
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with one, other:
            one.sendto(b"hello", self.datagrams)
            self._got("a message sent")

    def raw_datagram(self) -> None:
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)
        with one, other:
            one.connect(self.datagrams)
            self._got("a connection")

    def segment_of_other(self) -> None:
        """Shared memory of System V has no name in the file system."""
        if self.segment and libc.shmget(self.segment, 8, 0) >= 0:
            self._got("memory")

    def queue_of_other(self) -> None:
        number = {"x86_64": 240, "aarch64": 180}[os.uname().machine]
        if libc.syscall(number, self.queue.encode(), ctypes.c_long(os.O_RDWR), None, None) >= 0:
            self._got("a queue")

    def limit_other(self) -> None:
        """For example, with a limit on CPU time an editor would be killed."""
        resource.prlimit(self.victim, resource.RLIMIT_CORE, (0, 0))
        self._got("it")

    def trace_parent(self) -> None:
        if libc.ptrace(0x4206, self.parent, None, None) == 0:  # PTRACE_SEIZE, which does not stop it
            self._got("it")

    def descriptor_of_parent(self) -> None:
        process = os.pidfd_open(self.parent)
        if libc.syscall(438, ctypes.c_long(process), ctypes.c_long(1), ctypes.c_long(0)) >= 0:  # pidfd_getfd
            self._got("a descriptor")

    def kill_other(self) -> None:
        os.kill(self.victim, signal.SIGUSR1)
        self._got("it")

    def trace_other(self) -> None:
        if libc.ptrace(16, self.victim, None, None) == 0:  # PTRACE_ATTACH
            self._got("it")

    def copy_memory_of_other(self) -> None:
        one = (ctypes.c_size_t * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
        there = Path(f"/proc/{self.victim}/maps").read_text().partition("-")[0]
        other = (ctypes.c_size_t * 2)(int(there, 16), 8)
        if libc.process_vm_readv(self.victim, one, 1, other, 1, 0) == 8:
            self._got("memory")

    def new_namespaces(self) -> None:
        if libc.unshare(0x10000000 | 0x00020000) == 0:  # a user and its mounts
            self._got("namespaces")

    def clone_namespaces(self) -> None:
        number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
        child = libc.syscall(number, ctypes.c_long(0x10000000 | signal.SIGCHLD), None, None, None, None)
        if child == 0:
            os._exit(0)
        if child > 0:
            self._got("namespaces")

    def mount_over(self) -> None:
        if libc.mount(b"none", os.fsencode(self.top / ".git"), b"tmpfs", 0, None) == 0:
            libc.umount2(os.fsencode(self.top / ".git"), 2)  # where it works it is the machine's own
            self._got("a mount")

    def unmount(self) -> None:
        for path in (self.top / ".git", self.home / ".ssh"):
            libc.umount2(os.fsencode(path), 2)
        self._got((self.home / ".ssh" / "id").read_text())

    def use_keys(self) -> None:
        number = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
        if libc.syscall(number, ctypes.c_long(0), ctypes.c_long(-4), ctypes.c_long(0)) > 0:
            self._got("a keyring")

    def io_uring(self) -> None:
        if libc.syscall(425, ctypes.c_long(4), ctypes.create_string_buffer(120)) >= 0:
            self._got("a ring")

    def gain_privileges(self) -> None:
        if "NoNewPrivs:\t0" in Path("/proc/self/status").read_text():
            self._got("the right to execute what is setuid")


WRITTEN: dict[str, Callable[[Attempts], Path]] = {
    "write_outside": lambda world: world.outside / "write_outside",
    "create_outside": lambda world: world.outside / "new",
    "write_home": lambda world: world.home / ".profile",
    "write_tmp": lambda world: world.in_tmp,
    "write_shared_memory": lambda world: world.in_shm,
    "write_parent": lambda world: world.top.parent / "made",
    "git_hook": lambda world: world.top / ".git/hooks/pre-commit",
    "proc_cwd": lambda world: Path(f"/proc/{world.victim}/cwd/proc_cwd"),
}
READ: dict[str, Callable[[Attempts], Path]] = {
    "proc_environ": lambda world: Path(f"/proc/{world.victim}/environ"),
    "read_hidden": lambda world: world.home / ".ssh/id",
    "read_hidden_file": lambda world: world.home / ".netrc",
    "read_hidden_of_other": lambda world: Path(f"/proc/{world.victim}/root{world.home}/.ssh/id"),
}
OPENED: dict[str, Callable[[Attempts], object]] = {  # each returns a descriptor or a socket
    "write_etc": lambda world: os.open("/etc/hosts", os.O_WRONLY | os.O_APPEND),
    "write_sysctl": lambda world: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY),
    "proc_memory": lambda world: os.open(f"/proc/{world.victim}/mem", os.O_RDWR),
    "memory_of_parent": lambda world: os.open(f"/proc/{world.parent}/mem", os.O_RDWR),
    "tcp": lambda world: socket.create_connection(("127.0.0.1", world.tcp_port), timeout=0.5),
    "tcp6": lambda world: socket.create_connection(("::1", world.tcp6_port), timeout=0.5),
    "raw": lambda world: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "packet": lambda world: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0),
}
METHODS = {name: method for name, method in vars(Attempts).items() if not name.startswith("_")}
ATTEMPTS = [*METHODS, *WRITTEN, *READ, *OPENED]


def attempt(world: Attempts) -> None:
    if method := METHODS.get(world.name):
        method(world)
    elif path := WRITTEN.get(world.name):
        path(world).write_text("changed")
    elif path := READ.get(world.name):
        world._got(path(world).read_bytes().decode())
    else:
        world._got(OPENED[world.name](world))


def main() -> None:
    world = Attempts(json.loads(Path(sys.argv[1]).read_text()))
    for name in sys.argv[2:]:
        world.name = name
        child = os.fork()
        if not child:
            signal.alarm(10)
            try:
                attempt(world)
            except OSError as error:
                print(f"{name}: {error}", flush=True)
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
