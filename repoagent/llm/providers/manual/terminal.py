"""A reply that a person pastes or types at a terminal.

The terminal's own line mode cuts a line at 4,096 bytes (N_TTY), which a pasted line of code may well exceed, so
characters are read as they come: with an echo and the few keys that are needed to correct a word.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field

from repoagent.dataclass import dataclass

END = "."  # alone on a line it ends a reply
_EOT = "\x04"  # ^D
_HEEDED = 0.25  # seconds until a ^C is heeded, however it falls
_KILL = "\x15"  # ^U
_PASTE, _PASTED = "\x1b[200~", "\x1b[201~"
_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|O.|[^\[O])")


@dataclass
class _Typed:
    """The lines that are whole, and the one that is being written. `pasted`: the last thing was a paste."""

    lines: list[str] = field(default_factory=list)
    line: str = ""
    pasted: bool = False

    @property
    def text(self) -> str:
        return "\n".join([*self.lines, self.line])


def read_reply(keys: Iterator[str], echo: Callable[[str], None], first: Callable[[str], str | None]) -> str:
    """What is pasted or typed, key by key, up to a line with a single "." or ^D, or to Enter after a
    paste that the terminal has marked as one. Line ends are `\\n`.

    `first` is asked about the first line when Enter is pressed. A text is the reply; "" means that the line was
    no part of it; None that it is.
    """
    typed = _Typed()
    before = ""
    for key in keys:
        if (before, key) == ("\r", "\n"):
            key = ""  # a line end of two characters
        before = key
        if key.startswith(_PASTE):
            _paste(typed, _plain(key[len(_PASTE) : -len(_PASTED)]), echo)
        elif key == _EOT:
            echo("\n")
            break
        elif key in {"\r", "\n"}:
            echo("\n")
            if not typed.lines:
                answer = first(typed.line)
                if answer:
                    return answer
                if answer is not None:
                    typed.line = ""
                    continue
            if typed.line == END or (typed.pasted and not typed.line):
                typed.line = ""
                break
            typed.lines.append(typed.line)
            typed.line, typed.pasted = "", False
        elif key in {"\x7f", "\b"}:
            _rub_out(typed, 1, echo)
        elif key == _KILL:
            _rub_out(typed, len(typed.line), echo)
        elif key >= " " or key == "\t":
            typed.line += key
            echo(key if key.isprintable() or key == "\t" else "")
    return typed.text


def _paste(typed: _Typed, text: str, echo: Callable[[str], None]) -> None:
    """A paste of many lines is counted instead of shown: the person has it before their eyes elsewhere."""
    *lines, last = text.split("\n")
    if not lines:
        typed.line += last
        echo(last)
        return
    typed.lines += [typed.line + lines[0], *lines[1:]]
    typed.line = ""
    if last:
        typed.lines.append(last)
    typed.pasted = True
    count = len(lines) + bool(last)
    echo(f"[{count} lines pasted: Enter to use them]\n")


def _rub_out(typed: _Typed, count: int, echo: Callable[[str], None]) -> None:
    rest = max(0, len(typed.line) - count)
    for character in reversed(typed.line[rest:]):
        echo("\b \b" * (2 if unicodedata.east_asian_width(character) in "WF" else 1))
    typed.line = typed.line[:rest]


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@contextmanager
def listening(fd: int, echo: Callable[[str], None]) -> Iterator[Iterator[str]]:
    """The keys of the terminal `fd`, each as it is pressed; a marked paste is one key. ^C works as always."""
    import termios

    before = termios.tcgetattr(fd)
    raw = termios.tcgetattr(fd)
    raw[0] &= ~termios.ICRNL  # a pasted \r\n must not become two lines
    raw[3] &= ~(termios.ICANON | termios.ECHO)
    raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
    try:
        termios.tcsetattr(fd, termios.TCSADRAIN, raw)  # what has been typed before stays
        echo("\x1b[?2004h")
        yield _keys(fd)
    finally:
        echo("\x1b[?2004l")
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _keys(fd: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    key = ""
    while True:
        try:
            # Python heeds a ^C between its steps only: one in the instant before a read would wait for the next key.
            while not select.select([fd], [], [], _HEEDED)[0]:
                pass
            byte = os.read(fd, 1)  # one at a time: what follows the reply belongs to who asks next
        except OSError:  # the terminal is gone
            byte = b""
        if not byte:
            yield _EOT
            return
        for character in decoder.decode(byte):
            key += character
            if key.startswith(_PASTE):
                if not key.endswith(_PASTED):
                    continue
            elif key.startswith("\x1b") and not _ESCAPE.fullmatch(key):
                continue
            yield key
            key = ""
