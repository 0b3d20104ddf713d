"""Run the whole program, each time in its own process: a fork of one that has loaded its modules, which is slow.

A fork cannot follow the variables that Python reads as it starts (`PYTHON…`, the locale): if these differ, `run` starts
a new Python, as does every test of the start itself.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from tests.program_forks import LENGTH, STATUS, receive

_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "TZ")


def run(
    arguments: Sequence[str],
    cwd: Path | str,
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    load: Sequence[str] = (),
) -> subprocess.CompletedProcess[bytes]:
    """Run `repoagent ARGUMENTS` in `cwd` to its end, without a terminal, and capture its output.

    `env` is added to the environment of this process; `load` names further modules to load once (a client library).
    """
    whole = {**os.environ, **(env or {})}
    if _at_start(whole) == _at_start_of_all():
        running = start(arguments, cwd, stdin=stdin, env=env, load=load)
        out, err = running.communicate()
        return subprocess.CompletedProcess(arguments, running.wait(), out, err)
    command = [sys.executable, "-m", "repoagent", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=whole, input=stdin, capture_output=True, start_new_session=True, check=False
    )


def start(
    arguments: Sequence[str],
    cwd: Path | str,
    *,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    load: Sequence[str] = (),
) -> Running:
    """Start the same run and return at once; `communicate` waits for its end."""
    (to_read, to_write), (out, out_end), (err, err_end) = os.pipe(), os.pipe(), os.pipe()
    theirs = (to_read, out_end, err_end)
    running = Running(arguments, cwd, {**os.environ, **(env or {})}, theirs, load=load)
    for descriptor in theirs:
        os.close(descriptor)
    running.pipes = (to_write, out, err)
    if stdin:
        running.stdin = stdin
    else:
        os.close(to_write)
    return running


class Running:
    """A started run, similar to a `subprocess.Popen`, in its own session, with the standard streams `streams`.

    `env` is its whole environment. With `terminal`, the first stream is its controlling terminal.
    """

    pipes: tuple[int, int, int] | None = None
    stdin = b""

    def __init__(
        self,
        arguments: Sequence[str],
        cwd: Path | str,
        env: Mapping[str, str],
        streams: Sequence[int],
        *,
        terminal: bool = False,
        load: Sequence[str] = (),
    ) -> None:
        self.returncode: int | None = None
        job = {"arguments": [*arguments], "cwd": str(cwd), "env": {**env}, "terminal": terminal}
        data = json.dumps(job).encode()
        self._socket, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(_forks(*load), [b"."], [theirs.fileno(), *streams])
        self._socket.sendall(LENGTH.pack(len(data)) + data)
        (self.pid,) = STATUS.unpack(receive(self._socket, STATUS.size))

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._socket], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._socket], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("repoagent", timeout or 0)
            (self.returncode,) = STATUS.unpack(receive(self._socket, STATUS.size))
            self._socket.close()
        return self.returncode

    def communicate(self) -> tuple[bytes, bytes]:
        """Return its standard output and standard error after it has closed both and ended."""
        assert self.pipes is not None
        to_write, out, err = self.pipes
        output = _exchange(to_write, self.stdin, (out, err))
        self.wait()
        return output[out], output[err]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _exchange(to: int, data: bytes, sources: Sequence[int]) -> dict[int, bytes]:
    """Write `data`, if any, to `to` while reading `sources` to their ends; close all and return the data by source."""
    output = dict.fromkeys(sources, b"")
    reading, writing = list(sources), [to] if data else []
    if data:
        os.set_blocking(to, False)
    while reading:
        ready, room, _ = select.select(reading, writing, [])
        for source in ready:
            more = os.read(source, 65536)
            output[source] += more
            if not more:
                reading.remove(source)
        if room:
            try:
                data = data[os.write(to, data) :]
            except BrokenPipeError:
                data = b""
            if not data:
                os.close(writing.pop())
    for descriptor in (*writing, *sources):
        os.close(descriptor)
    return output


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_AT_START)}


@cache
def _at_start_of_all() -> dict[str, str]:
    return _at_start(os.environ)


@cache
def _forks(*load: str) -> socket.socket:
    """The socket of a program_forks.py that takes runs. Each `load` has its own, as modules that a process has loaded
    make each of its forks slower."""
    _at_start_of_all()
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", "tests.program_forks", str(theirs.fileno()), *load]
        process = subprocess.Popen(
            command, cwd=Path(__file__).parents[1], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
