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
        self.top, self.home, self.outside, self.in_tmp, self.in_shm = (
            Path(data[name]) for name in ("top", "home", "outside", "in_tmp", "in_shm")
        )
        self.victim, self.parent, self.tcp_port, self.tcp6_port, self.udp_port, self.segment = (
            int(data[name]) for name in ("victim", "parent", "tcp", "tcp6", "udp", "segment")
        )
        self.unix, self.abstract, self.datagrams, self.queue = (
            data[name] for name in ("unix", "abstract", "datagrams", "queue")
        )
        self.name = ""

    def got(self, what: object) -> None:
        """Record a successful escape."""
        (self.top / "src" / f"got-{self.name}").write_text(str(what))


class Attempts(World):
    """Each method is an attempt."""

    def write_outside(self) -> None:
        (self.outside / "write_outside").write_text("changed")

    def create_outside(self) -> None:
        (self.outside / "new").write_text("changed")

    def delete_outside(self) -> None:
        (self.outside / "delete_outside").unlink()

    def truncate_outside(self) -> None:
        os.truncate(self.outside / "truncate_outside", 0)

    def move_in(self) -> None:
        (self.outside / "move_in").rename(self.top / "src" / "moved")

    def change_mode_outside(self) -> None:
        (self.outside / "change_mode_outside").chmod(0o777)

    def write_home(self) -> None:
        (self.home / ".profile").write_text("changed")

    def write_etc(self) -> None:
        os.close(os.open("/etc/hosts", os.O_WRONLY | os.O_APPEND))
        self.got("a descriptor")

    def write_sysctl(self) -> None:
        os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
        self.got("a descriptor")

    def write_tmp(self) -> None:
        self.in_tmp.write_text("changed")

    def write_shared_memory(self) -> None:
        self.in_shm.write_text("changed")

    def write_parent(self) -> None:
        (self.top.parent / "made").write_text("changed")

    def go_up(self) -> None:
        os.chdir(self.top / "src")
        Path("../../outside/go_up").write_text("changed")

    def git_config(self) -> None:
        with (self.top / ".git" / "config").open("a") as file:
            file.write("[core]\n\tfsmonitor = evil\n")

    def git_hook(self) -> None:
        (self.top / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")

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

    def proc_cwd(self) -> None:
        Path(f"/proc/{self.victim}/cwd/proc_cwd").write_text("changed")

    def proc_memory(self) -> None:
        os.close(os.open(f"/proc/{self.victim}/mem", os.O_RDWR))
        self.got("a descriptor")

    def proc_environ(self) -> None:
        self.got(Path(f"/proc/{self.victim}/environ").read_bytes())

    def read_hidden(self) -> None:
        self.got((self.home / ".ssh" / "id").read_text())

    def read_hidden_file(self) -> None:
        text = (self.home / ".netrc").read_text()
        assert text
        self.got(text)

    def read_hidden_through_link(self) -> None:
        link = self.top / "src" / "keys"
        link.symlink_to(self.home / ".ssh")
        self.got((link / "id").read_text())

    def read_hidden_by_hard_link(self) -> None:
        os.link(self.home / ".ssh" / "id", self.top / "src" / "stolen")
        self.got((self.top / "src" / "stolen").read_text())

    def read_hidden_of_other(self) -> None:
        self.got(Path(f"/proc/{self.victim}/root{self.home}/.ssh/id").read_text())

    def read_disk(self) -> None:
        for disk in sorted(Path("/sys/block").iterdir()):
            try:
                os.close(os.open(f"/dev/{disk.name}", os.O_RDONLY))
            except OSError:
                continue
            self.got(disk)

    def make_device(self) -> None:
        os.mknod(self.top / "src" / "disk", 0o600 | 0o060000, os.makedev(7, 0))
        self.got("a device")

    def tcp(self) -> None:
        with socket.create_connection(("127.0.0.1", self.tcp_port), timeout=0.5):
            self.got("a connection")

    def tcp6(self) -> None:
        with socket.create_connection(("::1", self.tcp6_port), timeout=0.5):
            self.got("a connection")

    def udp(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"hello", ("127.0.0.1", self.udp_port))
            sender.settimeout(0.3)
            self.got(sender.recv(100))

    def raw(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP):
            self.got("a socket")

    def packet(self) -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0):
            self.got("a socket")

    def unix_socket(self) -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self.unix)
            self.got("a connection")

    def abstract_socket(self) -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("\0" + self.abstract)
            self.got("a connection")

    def datagram(self) -> None:
        """A socket of a pair accepts an address like any other, but is not created by `socket`."""
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with one, other:
            one.sendto(b"hello", self.datagrams)
            self.got("a message sent")

    def raw_datagram(self) -> None:
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)
        with one, other:
            one.connect(self.datagrams)
            self.got("a connection")

    def segment_of_other(self) -> None:
        """Shared memory of System V has no name in the file system."""
        if self.segment and libc.shmget(self.segment, 8, 0) >= 0:
            self.got("memory")

    def queue_of_other(self) -> None:
        number = {"x86_64": 240, "aarch64": 180}[os.uname().machine]
        if libc.syscall(number, self.queue.encode(), ctypes.c_long(os.O_RDWR), None, None) >= 0:
            self.got("a queue")

    def limit_other(self) -> None:
        """For example, with a limit on CPU time an editor would be killed."""
        resource.prlimit(self.victim, resource.RLIMIT_CORE, (0, 0))
        self.got("it")

    def memory_of_parent(self) -> None:
        os.close(os.open(f"/proc/{self.parent}/mem", os.O_RDWR))
        self.got("a descriptor")

    def trace_parent(self) -> None:
        if libc.ptrace(0x4206, self.parent, None, None) == 0:  # PTRACE_SEIZE, which does not stop it
            self.got("it")

    def descriptor_of_parent(self) -> None:
        process = os.pidfd_open(self.parent)
        if libc.syscall(438, ctypes.c_long(process), ctypes.c_long(1), ctypes.c_long(0)) >= 0:  # pidfd_getfd
            self.got("a descriptor")

    def kill_other(self) -> None:
        os.kill(self.victim, signal.SIGUSR1)
        self.got("it")

    def trace_other(self) -> None:
        if libc.ptrace(16, self.victim, None, None) == 0:  # PTRACE_ATTACH
            self.got("it")

    def copy_memory_of_other(self) -> None:
        one = (ctypes.c_size_t * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
        there = Path(f"/proc/{self.victim}/maps").read_text().partition("-")[0]
        other = (ctypes.c_size_t * 2)(int(there, 16), 8)
        if libc.process_vm_readv(self.victim, one, 1, other, 1, 0) == 8:
            self.got("memory")

    def new_namespaces(self) -> None:
        if libc.unshare(0x10000000 | 0x00020000) == 0:  # a user and its mounts
            self.got("namespaces")

    def clone_namespaces(self) -> None:
        number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
        child = libc.syscall(number, ctypes.c_long(0x10000000 | signal.SIGCHLD), None, None, None, None)
        if child == 0:
            os._exit(0)
        if child > 0:
            self.got("namespaces")

    def mount_over(self) -> None:
        if libc.mount(b"none", os.fsencode(self.top / ".git"), b"tmpfs", 0, None) == 0:
            libc.umount2(os.fsencode(self.top / ".git"), 2)  # where it works it is the machine's own
            self.got("a mount")

    def unmount(self) -> None:
        for path in (self.top / ".git", self.home / ".ssh"):
            libc.umount2(os.fsencode(path), 2)
        self.got((self.home / ".ssh" / "id").read_text())

    def use_keys(self) -> None:
        number = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
        if libc.syscall(number, ctypes.c_long(0), ctypes.c_long(-4), ctypes.c_long(0)) > 0:
            self.got("a keyring")

    def io_uring(self) -> None:
        if libc.syscall(425, ctypes.c_long(4), ctypes.create_string_buffer(120)) >= 0:
            self.got("a ring")

    def gain_privileges(self) -> None:
        status = dict(
            line.split(":\t", 1)
            for line in Path("/proc/self/status").read_text().splitlines()
            if ":\t" in line
        )
        if status["NoNewPrivs"] == "0":
            self.got("the right to execute what is setuid")


ATTEMPTS: dict[str, Callable[[Attempts], None]] = {
    name: method for name, method in vars(Attempts).items() if not name.startswith("_")
}


def main() -> None:
    world = Attempts(json.loads(Path(sys.argv[1]).read_text()))
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
