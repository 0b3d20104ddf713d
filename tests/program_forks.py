"""The process that has loaded the program and forks for each run: the counterpart of program.py."""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import socket
import struct
import sys
from contextlib import suppress
from typing import Any

LENGTH = struct.Struct("!I")
STATUS = struct.Struct("!i")


def receive(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise EOFError("the other end is gone")
        data += more
    return data


def load(*further: str) -> None:
    import repoagent

    for module in pkgutil.walk_packages(repoagent.__path__, "repoagent."):
        if not module.name.endswith("__main__"):
            __import__(module.name)
    for name in further:
        __import__(name)
    gc.collect()
    gc.freeze()


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork for each job until `control` is closed. Return the job in its own process, and None here at the end."""
    while True:
        byte, descriptors, _, _ = socket.recv_fds(control, 1, 4)
        if not byte:
            return None
        streams = descriptors[1:]
        caller = socket.socket(fileno=descriptors[0])
        job: dict[str, Any] = json.loads(receive(caller, LENGTH.unpack(receive(caller, LENGTH.size))[0]))
        if os.fork() == 0:
            control.close()
            child = os.fork()
            if child == 0:
                caller.close()
                for number, descriptor in enumerate(streams):
                    os.dup2(descriptor, number)
                os.closerange(3, max(streams) + 1)
                return job
            for descriptor in streams:
                os.close(descriptor)
            report(caller, child)
        caller.close()
        for descriptor in streams:
            os.close(descriptor)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def report(caller: socket.socket, child: int) -> None:
    """Send `caller` the process id of `child` and, when it has ended, its exit code; then exit."""
    try:
        caller.sendall(STATUS.pack(child))
        caller.sendall(STATUS.pack(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    finally:
        os._exit(0)


def become(job: dict[str, Any]) -> None:
    """Give this process the session, folder, environment, arguments and streams of a started program."""
    os.setsid()
    if job["terminal"]:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    sys.argv = [f"{job['cwd']}/repoagent/__main__.py", *job["arguments"]]
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    load(*sys.argv[2:])
    mine = serve(socket.socket(fileno=int(sys.argv[1])))
    if mine is not None:
        from repoagent.cli import main

        become(mine)
        main()
