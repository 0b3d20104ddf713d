"""A program on a real terminal (a pty), for tests."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.program import Running

# Makes the pty on standard input the controlling terminal, so that ^C is a signal, and becomes the program.
LAUNCH = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
PROGRAM = [sys.executable, "-m", "repoagent"]
TIMEOUT = 20.0


class Screen:
    """A running program. `seen` is its output on the terminal so far."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        *,
        env: Mapping[str, str] | None = None,
        width: int = 80,
        stdout: int | None = None,
    ) -> None:
        self.seen = ""
        decoder = codecs.getincrementaldecoder("utf-8")  # a read may end in a character
        self._decode = decoder("surrogateescape").decode
        self._expected = 0  # up to where `expect` has looked
        self._main, tty = pty.openpty()
        fcntl.ioctl(tty, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        # tests of the pager set one: less would wait for input
        whole = {**os.environ, "TERM": "xterm-256color", "GIT_PAGER": "cat"}
        for name in ("CI", "COLUMNS", "NO_COLOR"):
            whole.pop(name, None)
        whole.update(env or {})
        streams = (tty, tty if stdout is None else stdout, tty)
        self.process: Running | subprocess.Popen[bytes]
        if [*command[: len(PROGRAM)]] == PROGRAM:
            self.process = Running(command[len(PROGRAM) :], cwd, whole, streams, terminal=True)
        else:
            self.process = subprocess.Popen(
                [sys.executable, "-c", LAUNCH, *command], cwd=cwd, env=whole,
                stdin=streams[0], stdout=streams[1], stderr=streams[2],
            )  # fmt: skip
        os.close(tty)

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._main)

    def expect(self, text: str) -> str:
        """Wait for `text` in the output after the previous match; return the output up to and including it."""
        start = self._expected
        deadline = time.monotonic() + TIMEOUT
        while text not in self.seen[start:]:
            if not self._read(deadline):
                raise AssertionError(f"{text!r} never came: {self.seen!r}")
        self._expected = self.seen.index(text, start) + len(text)
        return self.seen[start : self._expected]

    def send(self, text: str) -> None:
        os.write(self._main, text.encode())

    def answer(self, question: str, keys: str) -> str:
        """Wait for `question`, and send `keys`; return the output up to and including the question."""
        output = self.expect(question)
        self.send(keys)
        return output

    def end(self, *, yes: bool = False) -> int:
        """Wait for the program to end, and answer each question ("...]? ") if `yes`; its exit code."""
        deadline, answered = time.monotonic() + TIMEOUT, 0
        while self._read(deadline):
            if yes and re.search(r"\]\?\s*(\x1b\[[0-9;]*m)?\s*\Z", self.seen[answered:]):
                answered = len(self.seen)
                self.send("y\n")
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self, deadline: float) -> bool:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self._main], [], [], left)[0]:
            raise AssertionError(f"nothing more came in time: {self.seen!r}")
        try:
            data = os.read(self._main, 65536)
        except OSError:  # Linux says EIO when the other end is closed
            return False
        self.seen += self._decode(data).replace("\r\n", "\n")
        return bool(data)


def python(code: str, *arguments: str) -> list[str]:
    """The command that runs `code`."""
    return [sys.executable, "-c", code, *arguments]
