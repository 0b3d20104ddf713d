"""What a person sees of the demo: headings, words, and commands that really run, with their real output.

On a terminal a command has the terminal to itself. Elsewhere it gets one of its own (a dumb one of 80
columns), so that a pipe or the log of a CI job shows what a person would have seen, and no control sequences.
"""

from __future__ import annotations

import os
import subprocess
import sys
import termios
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size

WIDEST = 76  # longer lines of prose are hard to read
ON_A_TERMINAL = sys.stdout.isatty()
IN_COLOUR = ON_A_TERMINAL and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


class Failed(Exception):
    """A step of the demo did not do what it should."""


@dataclass(frozen=True)
class Stage:
    """Where the commands run: the folder and the environment."""

    folder: Path
    env: Mapping[str, str]

    def run(self, command: str) -> int:
        """Show `command` as typed, run it in a shell, show what it prints; returns its exit code."""
        show(command)
        words = ["/bin/sh", "-c", command]
        if ON_A_TERMINAL:
            done = subprocess.run(
                words,
                cwd=self.folder,
                env={**self.env, "GIT_PAGER": "cat"},
                stdin=subprocess.DEVNULL,
                check=False,
            )
            return done.returncode
        return _run_on_a_terminal(words, self.folder, {**self.env, "TERM": "dumb", "COLUMNS": "80"})

    def must(self, command: str) -> None:
        """`run` for what has to succeed. Raises Failed."""
        if code := self.run(command):
            raise Failed(f"`{command}` ended with exit code {code}")

    def ask(self, *words: str) -> str:
        """The output of a command that nobody sees, to look at how things are. Raises Failed."""
        done = self.quietly(*words)
        if done.returncode:
            raise Failed(f"`{' '.join(words)}` ended with exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def quietly(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command that nobody sees."""
        return subprocess.run(
            words,
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def heading(text: str) -> None:
    _write(f"\n{paint(text, '1;4')}\n\n")


def say(text: str) -> None:
    """A paragraph of prose, wrapped to the terminal."""
    width = min(WIDEST, get_terminal_size((80, 24)).columns)
    wrapped = textwrap.fill(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False)
    _write(paint(wrapped, "36") + "\n")


def show(command: str) -> None:
    """A command, as at a prompt."""
    _write(paint("$", "2") + " " + paint(command, "1") + "\n")


def gap() -> None:
    _write("\n")


def expect(holds: bool, what: str) -> None:
    """Raises Failed unless `what` holds: the demo is a test as well."""
    if not holds:
        raise Failed(f"expected that {what}")


def paint(text: str, style: str) -> str:
    """`text` in an SGR style, line by line, where colours are wanted."""
    return "\n".join(f"\033[{style}m{line}\033[m" for line in text.split("\n")) if IN_COLOUR else text


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _run_on_a_terminal(words: list[str], folder: Path, env: Mapping[str, str]) -> int:
    ours, theirs = os.openpty()
    try:
        modes = termios.tcgetattr(theirs)
        modes[1] &= ~termios.OPOST  # a newline stays a newline
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        process = subprocess.Popen(
            words, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    with process:
        try:
            while data := _read(ours):
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
        except BaseException:
            process.terminate()
            raise
        finally:
            os.close(ours)
    return process.returncode


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux's way to say that nobody is at the other end any more
        return b""
