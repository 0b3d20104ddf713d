"""What a person sees while a model is waited for: a moving line, then the model's own words as they come."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from repoagent import trace
from repoagent.cli.screen.clean import clean, one_line, paint
from repoagent.dataclass import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from rich.status import Status
    from rich.text import Text

    from repoagent.cli.screen.markdown import Markdown
    from repoagent.cli.screen.reply import Plain
    from repoagent.cli.screen.terminal import Terminal


TAIL = 3  # lines of a running command
SPINNER = 2  # columns before a label
_TAIL_BYTES = 8192


class Working:
    """A context in which `label` says what is done and `text` shows what a model writes, on standard error.

    On a terminal that can't move its cursor a label is a line; in a pipe nothing is shown, or with --verbose
    the labels.
    """

    styles: tuple[str, ...] = ("dim",)  # of the model's words

    def __init__(self, terminal: Terminal, label: str) -> None:
        self._terminal = terminal
        self._first = label
        self._status: Status | None = None
        self._inside_line = False
        self._markdown: Markdown | Plain | None = None
        self._phase = ("", 0.0)  # what is done now, and since when, where it is traced

    def __enter__(self) -> Working:
        self.label(self._first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.quiet()
        self._next_phase("")

    def label(self, label: str, output: Path | None = None) -> None:
        """Say what is done now; below it the last lines of the file `output`, as it grows."""
        from repoagent.cli.screen.terminal import in_own_pager

        self.quiet()
        self._next_phase(label)
        if in_own_pager():  # a person reads there, and the line can't be moved
            return
        if self._terminal.moves:
            self._spin(label, output)
        elif self._terminal.tells or self._terminal.verbose:
            self._terminal.note(label)

    def progress(self, label: str, part: float) -> None:
        """Say how much of what is done now is done, 0 to 1; only where a line can be overwritten."""
        if self._status is not None:
            self._status.update(
                _Since(f"{clean(label)}: {part:.0%}", time.monotonic(), width=self._terminal.width)
            )

    def text(self, piece: str) -> None:
        """Show a piece of what a model or a program writes, as it is."""
        if not self._terminal.tells or not piece:
            return
        shown = clean(piece.replace("\r\n", "\n"))
        self._show(paint(shown, *self.styles) if self._terminal.color_err else shown)
        self._inside_line = not piece.endswith("\n")

    def words(self, piece: str) -> None:
        """Show a piece of a model's words, rendered; `quiet` ends them."""
        if not self._terminal.tells or not piece:
            return
        if self._markdown is None:
            self._show("")  # rich's line stands in for standard output, and knows no encoding
            self._markdown = self._terminal.markdown(*self.styles, aside=True)
        if shown := self._markdown.feed(piece):
            self._show(shown)
            self._inside_line = not shown.endswith("\n")
        if self._markdown.holds_table and self._terminal.moves and self._status is None:
            self._spin("writing a table")

    def note(self, text: str, *styles: str) -> None:
        """A line to the person, in between; see `Terminal.note`."""
        self.quiet()
        self._terminal.note(text, *styles)

    def quiet(self) -> None:
        """End the moving line, or the line that the model has begun."""
        rest = "" if self._markdown is None else self._markdown.rest()
        self._show(rest)
        if self._inside_line if not rest else not rest.endswith("\n"):
            self._show("\n")
        self._inside_line = False

    def interrupted(self) -> None:
        """Forget what was typed, as a terminal does at ^C, and end the line on which it has echoed that, unless it is
        one that is ended or taken away by `quiet`."""
        from repoagent.cli.screen.hush import echoed
        from repoagent.cli.screen.terminal import forget_input

        if self._terminal.can_ask:
            forget_input()
        if self._terminal.tells and self._status is None and not self._inside_line and echoed():
            sys.stderr.write("\n")

    def _spin(self, label: str, output: Path | None = None) -> None:
        from rich.console import Console

        console = Console(stderr=True, no_color=not self._terminal.color_err, highlight=False)
        spinner = "dots" if console.encoding.startswith("utf") else "line"
        self._status = console.status(
            _Since(clean(label), time.monotonic(), output, self._terminal.width), spinner=spinner
        )
        self._status.start()

    def _show(self, text: str) -> None:
        """Take the moving line away, and write `text`."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        if text:
            sys.stderr.write(text)
            sys.stderr.flush()

    def _next_phase(self, label: str) -> None:
        before, began = self._phase
        self._phase = (label, trace.begin() if label else 0.0)
        trace.end(began, "phase", before)


@dataclass(frozen=True)
class _Since:
    """A label with the seconds since `start`, and the last lines of `output`; rich asks for it again at each frame."""

    label: str
    start: float
    output: Path | None = None
    width: int = 80

    def __rich__(self) -> Text:
        from rich.text import Text

        seconds = int(time.monotonic() - self.start)
        text = Text(self.label, no_wrap=True, overflow="ellipsis")
        if seconds:  # of a long label the end goes, not the clock
            clock = f" ({seconds} s)"
            text.truncate(max(1, self.width - len(clock) - SPINNER), overflow="ellipsis")
            text.append(clock)
        for line in tail(self.output) if self.output is not None else ():
            text.append(f"\n  {line}", "dim")
        return text


def tail(output: Path) -> list[str]:
    """The last lines that are in the file by now; none where it is not there."""
    from repoagent.agent.commands.screen import drawn
    from repoagent.store.masking import mask

    try:
        with output.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            data = file.read()
    except OSError:
        return []
    lines = [drawn(line) for line in data.decode("utf-8", "replace").split("\n")]
    return [one_line(mask(line)) for line in lines if line.strip()][-TAIL:]
