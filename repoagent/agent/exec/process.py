"""A running command: its process group, a thread that copies its output to a file, its environment.

The environment has no terminal, so that no pager or editor opens and waits.
"""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from repoagent.agent.approvals.policy import May
from repoagent.dataclass import dataclass
from repoagent.git.process import defer_signals
from repoagent.storage.secrets import secrets_of

CLOSED = 141  # the exit code after SIGPIPE: 128 plus its number
GRACE = 0.5  # seconds to wait for output after the command has ended, while another process has its pipe open
MERCY = 2.0  # seconds between TERM and KILL
TAIL = 256 * 1024  # bytes of the end of an output that is too long
_CHUNK = 1 << 16
_SLICE = 0.1  # seconds of one wait: Python handles a ^C that arrives just before a wait only after it


class OutputFile:
    """Saves the first `keep` bytes of an output and, on `close`, its last bytes.

    Raises OSError if the file cannot be opened. A later error is stored in `write_error`, because the command
    continues.
    """

    def __init__(self, file: Path, keep: int) -> None:
        self.write_error = ""
        self._stream = file.open("ab", buffering=0)
        self._left = keep
        self._tail = b""
        self._rest = 0  # bytes after the first ones

    def write(self, data: bytes) -> None:
        head, rest = data[: self._left], data[self._left :]
        self._left -= len(head)
        if head:
            self._save(head)
        if rest:
            self._rest += len(rest)
            self._tail = (self._tail + rest)[-TAIL:]

    def close(self) -> None:
        if skipped := self._rest - len(self._tail):
            self._save(f"\n[… {skipped} bytes were not saved …]\n".encode())
        if self._tail:
            self._save(self._tail)
        self._stream.close()

    def _save(self, data: bytes) -> None:
        try:
            self._stream.write(data)
        except OSError as error:
            self.write_error = error.strerror or str(error)


@dataclass(frozen=True)
class Job:
    text: str
    folder: Path
    by: str = ""
    may: May = "all"


class Command:
    """A running or ended command, in its own session and without input.

    A thread copies its output to `file`. `why` returns the reason why the sandbox ended the command, or None. Raises
    OSError if the command cannot be started.
    """

    def __init__(
        self,
        job: Job,
        argv: Sequence[str],
        file: Path,
        env: Mapping[str, str],
        keep: int,
        *,
        why: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.job, self.file, self.why = job, file, why
        self.began = time.monotonic()
        self.took: float | None = None
        self.stopped = ""  # why it was ended
        self.shown = 0  # bytes of the file that a model has seen
        self.left_running = False  # another process still had the pipe open after the command ended
        self.output = OutputFile(file, keep)
        self._abandoned = threading.Event()
        started = False
        reading, writing = os.pipe()
        try:
            with defer_signals():  # a ^C right after the start must find the process to end
                self.process = subprocess.Popen(
                    list(argv), cwd=job.folder, env=dict(env), stdin=subprocess.DEVNULL, stdout=writing, stderr=writing,
                    start_new_session=True,
                )  # fmt: skip
                started = True
                self._copier = threading.Thread(target=self._copy, args=(reading,), daemon=True)
                self._copier.start()
        except BaseException:
            if started:
                self._signal(signal.SIGKILL)
            else:
                os.close(reading)
                self.output.close()
            raise
        finally:
            os.close(writing)

    def _copy(self, descriptor: int) -> None:
        """Copy the pipe to the file, until it is closed or the command has ended."""
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        ended: float | None = None
        polled = 0.0
        try:
            while not self._abandoned.is_set():
                if poller.poll(100):
                    data = os.read(descriptor, _CHUNK)
                    if not data:
                        break
                    self.output.write(data)
                current = time.monotonic()
                if current - polled < 0.05:
                    continue
                polled = current
                if ended is None and self.process.poll() is not None:
                    ended = current
                if ended is not None and current - ended > GRACE:
                    self.left_running = True
                    break
        finally:
            self.output.close()
            os.close(descriptor)

    def wait(self, seconds: float | None) -> bool:
        """Wait until the command has ended and its output is saved; False if that takes longer than `seconds`."""
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        while not self.has_ended():
            remaining = min(_SLICE, deadline - time.monotonic())
            if remaining <= 0:
                return False
            if self._copier.is_alive():
                self._copier.join(remaining)
            else:
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(remaining)
        return True

    def has_ended(self) -> bool:
        """Whether the command has ended and its output is saved."""
        if self._copier.is_alive() or self.process.poll() is None:
            return False
        if self.took is None:
            self.took = time.monotonic() - self.began
            self.stopped = self.stopped or self.why() or ""
            if self.left_running:
                self._signal(signal.SIGKILL)
        return True

    def end(self, why: str = "") -> None:
        """End the command and its process group with TERM, then with KILL."""
        self.stopped = self.stopped or why
        self._signal(signal.SIGTERM)
        try:
            ended = self.wait(MERCY)
        except BaseException:  # a second ^C
            self._signal(signal.SIGKILL)
            raise
        if not ended:
            self._signal(signal.SIGKILL)
            if not self.wait(MERCY):
                self._abandoned.set()
                self.wait(MERCY)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):  # it has ended, or belongs to another user
            os.killpg(self.process.pid, number)

    @property
    def label(self) -> str:
        """The command in one short line."""
        text = " ".join(self.job.text.split())
        return text if len(text) <= 80 else f"{text[:79]}…"

    @property
    def seconds(self) -> float:
        return self.took if self.took is not None else time.monotonic() - self.began

    @property
    def exit(self) -> int | None:
        """The exit code: 128+n after signal n, None while the command is running, 0 if it ended only because a reader
        closed its pipe."""
        code = self.process.poll()
        code = code if code is None or code >= 0 else 128 - code
        return 0 if code == CLOSED and "|" in self.job.text else code

    def how(self) -> str:
        code = self.exit
        if code is None:
            return "it runs"
        text = f"{self.stopped}, exit {code}" if self.stopped else f"exit {code}"
        with suppress(ValueError):  # not the code of a signal
            text += f" ({signal.Signals(code - 128).name})"
        return text

    def record(self) -> dict[str, object]:
        return {
            "kind": "command",
            "command": self.job.text,
            "by": self.job.by,
            "exit": self.exit,
            "seconds": round(self.seconds, 3),
            "output": self.file.name,
            **({"stopped": self.stopped} if self.stopped else {}),
        }


# Output goes to a pipe: in a terminal programs draw progress bars, ask, page and wait. COLUMNS and LINES make tables
# and reports readable.
_SET = {
    "COLUMNS": "100", "LINES": "40", "TERM": "dumb", "NO_COLOR": "1",
    "PAGER": "cat", "MANPAGER": "cat", "GIT_PAGER": "cat", "SYSTEMD_PAGER": "",
    "EDITOR": "false", "VISUAL": "false", "GIT_EDITOR": "false", "GIT_SEQUENCE_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0", "DEBIAN_FRONTEND": "noninteractive", "PIP_NO_INPUT": "1",
    "GIT_OPTIONAL_LOCKS": "0",  # `git status` does not write the index
    "PYTHONUNBUFFERED": "1",  # so that output and errors come in order, and before a time-out
}  # fmt: skip
# These run programs or read files that the command does not name.
_DROPPED = {
    "BASH_ENV", "ENV", "CDPATH", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "BASHOPTS", "GREP_OPTIONS",
    "LESSOPEN", "RIPGREP_CONFIG_PATH", "GIT_EXTERNAL_DIFF", "GIT_PAGER_IN_USE", "SSH_ASKPASS",
    "GIT_ASKPASS", "LESSCLOSE",
}  # fmt: skip


def command_environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return `base` without secrets, shell hooks and relative folders in PATH.

    Settings are added that keep programs from waiting for input. CI is not set: programs should behave as they do for
    the user.
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
