"""What is said next: from a pipe, a line each time, or from a terminal that can do nothing but lines."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Protocol

from repoagent.cli.screen.hush import heard, typed
from repoagent.dataclass import dataclass
from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal

PROMPT = "> "
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?")  # a key that is no character
_GOES_ON = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")


class Reader(Protocol):
    """Where a chat gets what is said to it."""

    def read(self) -> str | None:
        """The next input, of one line or more; None at the end. Raises KeyboardInterrupt for a ^C."""
        ...


def goes_on(text: str) -> bool:
    """Whether a line ends in a backslash that nothing escapes: then the next one belongs to it."""
    return _GOES_ON.search(text) is not None


@dataclass
class Lines:
    """Lines of standard input; a person at a terminal that can't move its cursor sees where to type."""

    terminal: Terminal

    def read(self) -> str | None:
        before = _erased(typed())
        with heard(typed_ahead=True):
            return self._read(before)

    def _read(self, before: str) -> str | None:
        """`before` was typed before there was a prompt: it is the beginning of the input, and is shown as such."""
        *found, begun = before.split("\n")
        for at, line in enumerate(found):
            self._show(at, f"{line}\n")
        while True:
            self._show(len(found), begun)
            data = sys.stdin.buffer.readline()
            if not data:
                self._show(0, "\n", prompt=False)
                found += [begun] if begun else []
                return "\n".join(found) if found else None
            text = begun + _decoded(data)
            begun = ""
            if not goes_on(text):
                return "\n".join([*found, text])
            found.append(text[:-1])

    def _show(self, at: int, text: str, *, prompt: bool = True) -> None:
        if self.terminal.can_ask:
            head = ("  " if at else PROMPT) if prompt else ""
            sys.stderr.write(f"{head}{text}")
            sys.stderr.flush()


def _erased(text: str) -> str:
    """What a terminal would have made of these keys: what was erased is gone, and what is no character."""
    found: list[str] = []
    for character in _SEQUENCE.sub("", text):
        if character in "\b\x7f":
            if found and found[-1] != "\n":
                found.pop()
        elif character == "\x15":
            while found and found[-1] != "\n":
                found.pop()
        elif character.isprintable() or character == "\n":
            found.append(character)
    return "".join(found)


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UsageError("what was said is no UTF-8 text: save it as UTF-8") from error
