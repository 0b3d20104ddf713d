"""A reply on a terminal as it comes. Into a pipe it goes whole, at the end: what was written can't be taken back."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass

if TYPE_CHECKING:
    from repoagent.cli.screen.markdown import Markdown
    from repoagent.cli.screen.reply import Plain
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.cli.screen.working import Working


@dataclass
class Stream:
    """Renders the pieces of a reply on standard output, if it is `live`."""

    terminal: Terminal
    working: Working
    live: bool
    _started: bool = False
    _inside_line: bool = False
    _markdown: Markdown | Plain = field(init=False, repr=False)

    def text(self, piece: str) -> None:
        """One piece."""
        if not self.live or not piece:
            return
        if not self._started:
            self.working.quiet()
            self._markdown = self.terminal.markdown()
            self._started = True
        self._show(self._markdown.feed(piece))

    def void(self, text: str) -> None:
        """What was shown of an attempt that broke off does not count."""
        if self._started:
            self._break()
            self.terminal.note("That reply broke off: it does not count.", "yellow")
            self._started = False

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
        if not self._started:
            self.text(whole)
        self._break()

    def _break(self) -> None:
        """Print what is held back, and end the line that the model has begun."""
        if self._started:
            self._show(self._markdown.rest())
        if self._inside_line:
            self._show("\n")

    def _show(self, text: str) -> None:
        if text:
            self.working.quiet()
            self.terminal.styled(text)
            self._inside_line = not text.endswith("\n")
