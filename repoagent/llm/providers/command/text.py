"""Text as a program prints it for a terminal, made plain: no colours, no titles, no spinner."""

from __future__ import annotations

import re
from dataclasses import field

from repoagent.dataclass import dataclass
from repoagent.llm.model import Stop, Usage

# CSI; OSC, DCS and the other strings up to BEL or ST; escapes of two and three characters.
_CONTROL = re.compile(
    r"\x1b\[([0-?]*)[ -/]*([@-~])"
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,8000}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]+[0-~]|\x1b[0-OQ-WYZ\\`-~]"
)
_LONGEST = 8192  # characters; an escape that does not end by then is none
_MOVE = re.compile(f"{_CONTROL.pattern}|\r(?!\n)|\b")
_OTHERS = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\x7f]")


@dataclass
class Said:
    """What a program has said. `error` is its own words for a failure; `known` is False for output in a form
    that should say what is the reply, and does not."""

    text: str = ""
    stop: Stop = "end"
    usage: Usage | None = None
    model: str = ""
    error: str = ""
    known: bool = False


@dataclass
class Plain:
    """A reader of output that is the reply itself. `feed` gives what can be shown at once; `said` has what a
    terminal would show in the end: a line that is written over (a spinner) counts as it was written last."""

    _done: list[str] = field(default_factory=list)
    _line: str = ""
    _home: bool = False  # the cursor is at the start of the line: what comes is written over it
    _rest: str = ""

    def feed(self, piece: str) -> str:
        data = self._rest + piece
        end = _whole(data)
        data, self._rest = data[:end], data[end:]
        return self._write(data)

    def finish(self) -> str:
        rest, self._rest = self._rest, ""
        return self._write(rest)

    @property
    def said(self) -> Said:
        return Said(text="".join(self._done) + self._line, known=True)

    def _write(self, data: str) -> str:
        shown: list[str] = []
        at = 0
        for match in _MOVE.finditer(data):
            shown.append(self._put(data[at : match.start()]))
            at = match.end()
            self._move(match)
        shown.append(self._put(data[at:]))
        return "".join(shown)

    def _put(self, text: str) -> str:
        text = _OTHERS.sub("", text)
        if self._home and text:
            self._home = False
            if not text.lstrip("\r").startswith("\n"):
                self._line = ""
        *lines, last = text.split("\n")
        for line in lines:
            self._done.append(f"{self._line}{line}\n")
            self._line = ""
        self._line += last
        return text

    def _move(self, match: re.Match[str]) -> None:
        number, letter = match[1], match[2]
        if match[0] == "\b":
            self._line = self._line[:-1]
        elif match[0] == "\r" or (letter == "G" and number in {"", "1"}):
            self._home = True
        elif letter == "K" and (number == "2" or self._home):
            self._line = ""
        elif letter == "D":  # back by so many columns, to write over the end of the line
            back = int(number) if number.isdecimal() else 1
            self._line = self._line[: max(0, len(self._line) - back)]


def plain(text: str) -> str:
    """`text` as a terminal would show it in the end."""
    reader = Plain()
    reader.feed(text)
    reader.finish()
    return reader.said.text


def _whole(data: str) -> int:
    """Up to where `data` can be read without what comes next."""
    at = 0
    while (at := data.find("\x1b", at)) >= 0:
        match = _CONTROL.match(data, at)
        if match is None and len(data) - at < _LONGEST:
            return at
        at = match.end() if match else at + 1
    return len(data) - data.endswith("\r")
