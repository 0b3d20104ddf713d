"""What is said next: from a pipe, a line each time, or from a terminal that can do nothing but lines."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal

PROMPT = "> "
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
        found: list[str] = []
        while True:
            if self.terminal.can_ask:
                sys.stderr.write("  " if found else PROMPT)
                sys.stderr.flush()
            line = sys.stdin.buffer.readline()
            if not line:
                if self.terminal.can_ask:
                    sys.stderr.write("\n")
                return "\n".join(found) if found else None
            text = _decoded(line)
            if not goes_on(text):
                return "\n".join([*found, text])
            found.append(text[:-1])


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UsageError("what was said is no UTF-8 text: save it as UTF-8") from error
