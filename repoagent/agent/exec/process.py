"""A running command: its process group, a thread that copies its output to a file, its environment, its ports.

The environment has no terminal, so that no pager or editor opens and waits. Listening ports are read from the kernel's
table, in the network namespace of the command: connecting would not tell whose port it is.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from repoagent.agent.approvals.policy import May
from repoagent.agent.exec.output import CLOSED
from repoagent.dataclass import dataclass
from repoagent.git.process import uninterrupted
from repoagent.storage.secrets import secrets_of

GRACE = 0.5  # seconds that output is waited for when the command has ended and something holds its pipe
MERCY = 2.0  # seconds between TERM and KILL
TAIL = 256 * 1024  # bytes that are kept of the end of an output that is too long
_CHUNK = 1 << 16


@dataclass
class Command:
    """A command that was started, and the file with what it prints."""

    job: Job
    file: Path
    process: subprocess.Popen[bytes]
    pump: _Pump
    began: float = field(default_factory=time.monotonic)
    took: float | None = None
    stopped: str = ""  # why it was ended by us
    why: Callable[[], str | None] = lambda: None  # why the sandbox ended it, when it has ended
    shown: int = 0  # bytes of the file that a model has seen

    def wait(self, seconds: float | None) -> bool:
        """Wait until it has ended and all it printed is in the file; False when that takes longer than `seconds`."""
        deadline = None if seconds is None else time.monotonic() + max(seconds, 0.0)

        def left() -> float | None:
            return None if deadline is None else max(0.0, deadline - time.monotonic())

        self.pump.thread.join(left())
        try:
            if not self.pump.thread.is_alive():
                self.process.wait(left())
        except subprocess.TimeoutExpired:
            return False
        return self.has_ended()

    def has_ended(self) -> bool:
        """Whether it has ended, and what it printed is all in the file."""
        if self.pump.thread.is_alive() or self.process.poll() is None:
            return False
        if self.took is None:
            self.took = time.monotonic() - self.began
            self.stopped = self.stopped or self.why() or ""
            if self.pump.held:
                _signal(self.process.pid, signal.SIGKILL)  # what it left behind goes with it
        return True

    def end(self, why: str = "") -> None:
        """End it and all it has started: politely first, then surely."""
        self.stopped = self.stopped or why
        _signal(self.process.pid, signal.SIGTERM)
        try:
            ended = self.wait(MERCY)
        except BaseException:  # a second ^C
            _signal(self.process.pid, signal.SIGKILL)
            raise
        if not ended:
            _signal(self.process.pid, signal.SIGKILL)
            if not self.wait(MERCY):
                self.pump.stop.set()
                self.wait(MERCY)

    @property
    def label(self) -> str:
        """Its text, in a line."""
        text = " ".join(self.job.text.split())
        return text if len(text) <= 80 else f"{text[:79]}…"

    @property
    def seconds(self) -> float:
        return self.took if self.took is not None else time.monotonic() - self.began

    @property
    def exit(self) -> int | None:
        """The exit code; of one that a signal ended, 128 and its number; None while it runs. Of a pipe whose reader
        had enough it is 0."""
        code = self.process.poll()
        code = code if code is None or code >= 0 else 128 - code
        return 0 if code == CLOSED and "|" in self.job.text else code

    def how(self) -> str:
        """How it ended, in words."""
        code = self.exit
        if code is None:
            return "it runs"
        name = ""
        if 128 < code < 128 + 65:
            try:
                name = f" ({signal.Signals(code - 128).name})"
            except ValueError:
                pass  # a code that means something else
        return f"{self.stopped}, exit {code}{name}" if self.stopped else f"exit {code}{name}"

    def record(self) -> dict[str, object]:
        """What the audit keeps of it."""
        return {
            "kind": "command",
            "command": self.job.text,
            "cwd": self.job.cwd or ".",
            "by": self.job.by,
            "exit": self.exit,
            "seconds": round(self.seconds, 3),
            "output": self.file.name,
            **({"stopped": self.stopped} if self.stopped else {}),
        }


@dataclass(frozen=True)
class Job:
    """What is to be run: its text, the folder, that folder's name below the top, who allowed it, and to touch what."""

    text: str
    folder: Path
    cwd: str = ""
    by: str = ""
    may: May = "all"


def start(job: Job, argv: Sequence[str], file: Path, env: Mapping[str, str], keep: int) -> Command:
    """Start `argv` in a session of its own, without input; what it prints goes to `file`: at most `keep` bytes, and the
    end. Raises OSError when it can't be started."""
    reading, writing = os.pipe()
    process: subprocess.Popen[bytes] | None = None
    try:
        with uninterrupted():  # a ^C right after the start must find the process to end
            process = subprocess.Popen(
                list(argv),
                cwd=job.folder,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
            )
            command = Command(job, file, process, _Pump(reading, file, keep, process.poll))
    except BaseException:
        if process is None:
            os.close(reading)
        else:
            _signal(process.pid, signal.SIGKILL)
        raise
    finally:
        os.close(writing)
    return command


class _Pump:
    """The thread between a pipe and a file."""

    def __init__(self, descriptor: int, file: Path, keep: int, poll: Callable[[], int | None]) -> None:
        self.stop = threading.Event()
        self.held = False  # somebody held the pipe when the command had ended
        self.trouble = ""
        self._poll = poll
        self._keep = keep
        self._written = 0
        self._tail: deque[bytes] = deque()
        self._skipped = 0
        self._file = file
        self.thread = threading.Thread(target=self._run, args=(descriptor,), daemon=True)
        self.thread.start()

    def _run(self, descriptor: int) -> None:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        ended: float | None = None
        looked = 0.0
        try:
            with self._file.open("ab", buffering=0) as out:
                while not self.stop.is_set():
                    if poller.poll(100):
                        data = os.read(descriptor, _CHUNK)
                        if not data:
                            break
                        self._take(out.write, data)
                    current = time.monotonic()
                    if current - looked < 0.05:
                        continue
                    looked = current
                    if ended is None and self._poll() is not None:
                        ended = current
                    if ended is not None and current - ended > GRACE:
                        self.held = True
                        break
                self._finish(out.write)
        finally:
            os.close(descriptor)

    def _take(self, write: Callable[[bytes], object], data: bytes) -> None:
        room = max(0, self._keep - self._written)
        head, rest = data[:room], data[room:]
        if head:
            self._write(write, head)
            self._written += len(head)
        if rest:
            self._tail.append(rest)
            self._skipped += len(rest)
            while sum(map(len, self._tail)) - len(self._tail[0]) >= TAIL:
                self._tail.popleft()

    def _finish(self, write: Callable[[bytes], object]) -> None:
        """Put the end of an output that was too long behind what was kept of its beginning."""
        if not self._skipped:
            return
        tail = b"".join(self._tail)[-TAIL:]
        lost = self._skipped - len(tail)
        if lost:
            self._write(write, f"\n[… {lost} bytes were not saved …]\n".encode())
        self._write(write, tail)

    def _write(self, write: Callable[[bytes], object], data: bytes) -> None:
        try:
            write(data)
        except OSError as error:  # a full disk: the command goes on, what it prints is lost
            self.trouble = error.strerror or str(error)


def _signal(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # all of it has ended, or belongs to another user
        pass


COLUMNS, LINES = 100, 40

# A pipe and not a terminal of its own: with one, programs draw progress bars, ask, page and wait. The size is said by
# the two variables that programs look at, which is what makes tables and reports come out readable.
_SET = {
    "COLUMNS": str(COLUMNS),
    "LINES": str(LINES),
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "SYSTEMD_PAGER": "",
    "EDITOR": "false",
    "VISUAL": "false",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",  # `git status` does not write the index
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PYTHONUNBUFFERED": "1",  # so that output and errors come in order, and before a time-out
}
# What would run a program or read a file that nobody named.
_DROPPED = {
    "BASH_ENV", "ENV", "CDPATH", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "BASHOPTS", "GREP_OPTIONS",
    "LESSOPEN", "RIPGREP_CONFIG_PATH", "GIT_EXTERNAL_DIFF", "GIT_PAGER_IN_USE", "SSH_ASKPASS",
    "GIT_ASKPASS", "LESSCLOSE",
}  # fmt: skip


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """`base` without keys and what acts on a shell by itself, and with what keeps programs from waiting for a person.

    CI is not set: programs should behave as they do for the person. Folders of PATH that are relative are left out.
    """
    dropped = _DROPPED | set(secrets_of(base))
    env = {
        name: value
        for name, value in base.items()
        if name not in dropped and not name.startswith("BASH_FUNC_")
    }
    env |= _SET
    if "PATH" in env:
        env["PATH"] = ":".join(folder for folder in env["PATH"].split(":") if folder.startswith("/"))
    return env


_LISTEN = "0A"  # the state of a socket in /proc/net/tcp, see proc(5)
_PROC = Path("/proc")


def listens(pid: int, port: int) -> bool:
    """Whether the process `pid`, or one that it has started, listens on the TCP port `port`."""
    if not (_PROC / "self" / "net").exists():
        with socket.socket() as connection:
            connection.settimeout(0.2)
            return connection.connect_ex(("127.0.0.1", port)) == 0
    for process in _family(pid):
        inodes = _listening(process, port)
        if inodes and (not _shares_network(process) or inodes & _sockets(process)):
            return True
    return False


def _family(pid: int) -> list[int]:
    """`pid`, and all processes below it."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            stat = _read(entry / "stat")
            fields = stat.rpartition(")")[2].split()
            if len(fields) > 1:
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    family = [pid]
    for process in family:
        family += children.get(process, [])
    return family


def _listening(process: int, port: int) -> set[str]:
    """The sockets (inodes) that listen on `port` in the network of `process`."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        for line in _read(_PROC / str(process) / "net" / table).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(fields[9])
    return inodes


def _sockets(process: int) -> set[str]:
    try:
        links = [str(entry.readlink()) for entry in (_PROC / str(process) / "fd").iterdir()]
    except OSError:
        return set()
    return {match[1] for link in links if (match := re.fullmatch(r"socket:\[(\d+)\]", link))}


def _shares_network(process: int) -> bool:
    try:
        mine, other = (_PROC / name / "ns" / "net" for name in ("self", str(process)))
        return mine.readlink() == other.readlink()
    except OSError:
        return True


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended
        return ""
