"""A reply on a terminal as it comes. Into a pipe it goes whole, at the end: what was written can't be taken back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.cli.screen.working import Working


@dataclass
class Stream:
    """Shows the pieces of a reply on standard output, if it is `live`."""

    terminal: Terminal
    working: Working
    live: bool
    _started: bool = False
    _line_open: bool = False
    _held: str = ""

    def text(self, piece: str) -> None:
        """One piece. A carriage return is held back until it is known whether a newline follows."""
        if not self.live or not piece:
            return
        if not self._started:
            self.working.quiet()
            self._started = True
        piece = self._held + piece
        self._held = "\r" if piece.endswith("\r") else ""
        shown = piece.removesuffix("\r").replace("\r\n", "\n")
        if shown:
            self.terminal.result(shown)
            self._line_open = not shown.endswith("\n")

    def void(self, text: str) -> None:
        """What was shown of an attempt that broke off does not count."""
        if self._started:
            self._break()
            self.terminal.note("That reply broke off: it does not count.", "yellow")
            self._started = False
            self._held = ""

    def waiting(self, seconds: float, why: str) -> None:
        self.warn_line(f"{why}; trying again in {seconds:.0f} s")

    def warn(self, sentence: str) -> None:
        self.working.quiet()
        self._break()
        self.terminal.warn(sentence)

    def warn_line(self, sentence: str) -> None:
        self.working.quiet()
        self._break()
        self.terminal.note(sentence)

    def end(self, whole: str) -> None:
        """The reply is there: its end, or all of it where it came at once."""
        if not self.live:
            return
        if not self._started:
            self.text(whole)
        if self._held:
            self._held = ""
            self.terminal.result("\r")
        self._break()

    def _break(self) -> None:
        """End the line that the model has begun."""
        if self._line_open:
            self.terminal.result("\n")
            self._line_open = False
