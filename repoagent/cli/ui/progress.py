"""Progress on standard error: a spinner, the output of a command, and a model's reply as it streams
(`ProgressDisplay`); and the prose in a reply (`ProseFilter`).
"""

from __future__ import annotations

import re
import sys
import time
from dataclasses import field
from types import TracebackType
from typing import TYPE_CHECKING

from repoagent import tracing
from repoagent.dataclass import dataclass
from repoagent.display_text import one_line, paint, sanitize

if TYPE_CHECKING:
    from pathlib import Path

    from rich.status import Status
    from rich.text import Text

    from repoagent.cli.ui.markdown import Markdown
    from repoagent.cli.ui.terminal import Terminal

TAIL = 3  # lines of a running command
SPINNER = 2  # columns before a label
_TAIL_BYTES = 8192


class ProgressDisplay:
    """A context manager that shows labels with a spinner, and a model's text.

    On a terminal that cannot move its cursor, each label gets a line of its own. In a pipe, labels are printed only
    with --verbose.
    """

    styles: tuple[str, ...] = ("dim",)  # of the model's prose

    def __init__(self, terminal: Terminal, label: str, *, aside: bool = True) -> None:
        """`aside`: the model's text goes to standard error; otherwise it is the result."""
        self._terminal = terminal
        self._aside = aside
        self._first = label
        self._status: Status | None = None
        self._inside_line = False
        self._markdown: Markdown | None = None
        self._phase = ("", 0.0)  # for the trace: the label and its start

    def __enter__(self) -> ProgressDisplay:
        self.label(self._first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.quiet()
        self._next_phase("")

    def label(self, label: str, output: Path | None = None) -> None:
        """Show a label, and below it the last lines of the file `output` as it grows."""
        from repoagent.cli.ui.terminal import in_own_pager

        self.quiet()
        self._next_phase(label)
        if in_own_pager():  # which shows no spinner
            return
        if self._terminal.moves:
            self._spin(label, output)
        elif self._terminal.error_tty or self._terminal.verbose:
            self._terminal.note(label)

    def progress(self, label: str, part: float | None = None) -> None:
        """Show another label and the completed `part` (0 to 1), if the terminal can overwrite a line."""
        if self._status is not None:
            text = sanitize(label) if part is None else f"{sanitize(label)}: {part:.0%}"
            self._status.update(_Since(text, time.monotonic(), width=self._terminal.width))

    def text(self, piece: str) -> None:
        """Show a piece of a model's or a program's output, unrendered."""
        if not self._terminal.error_tty or not piece:
            return
        shown = sanitize(piece.replace("\r\n", "\n"))
        self._show(paint(shown, *self.styles) if self._terminal.color_err else shown)
        self._inside_line = not piece.endswith("\n")

    def words(self, piece: str) -> None:
        """Show a piece of a model's prose, rendered; `quiet` ends the prose."""
        if not (self._terminal.error_tty or not self._aside) or not piece:
            return
        if self._markdown is None:
            self._show("")  # stop the spinner: rich replaces sys.stderr
            styles = self.styles if self._aside else ()
            self._markdown = self._terminal.markdown(*styles, aside=self._aside)
        if shown := self._markdown.feed(piece):
            self._show(shown)
            self._inside_line = not shown.endswith("\n")
        if self._aside and self._markdown.holds_table and self._terminal.moves and self._status is None:
            self._spin("writing a table")

    def note(self, text: str, *styles: str) -> None:
        """Print a line; see `Terminal.note`."""
        self.quiet()
        self._terminal.note(text, *styles)

    def quiet(self) -> None:
        """Stop the spinner, and end the model's last line if it is unfinished."""
        rest = "" if self._markdown is None else self._markdown.rest()
        self._show(rest)
        if not rest.endswith("\n") if rest else self._inside_line:
            self._show("\n")
        self._inside_line = False

    def interrupted(self) -> None:
        """Discard typed input, as a terminal does at ^C, and end the line on which ^C was echoed, unless `quiet` does
        so."""
        from repoagent.cli.ui.terminal import discard_input

        if self._terminal.can_ask:
            discard_input()
        if self._terminal.error_tty and self._status is None and not self._inside_line:
            sys.stderr.write("\n")

    def _spin(self, label: str, output: Path | None = None) -> None:
        from rich.console import Console

        console = Console(stderr=True, no_color=not self._terminal.color_err, highlight=False)
        spinner = "dots" if console.encoding.startswith("utf") else "line"
        since = _Since(sanitize(label), time.monotonic(), output, self._terminal.width)
        self._status = console.status(since, spinner=spinner)
        self._status.start()

    def _show(self, text: str) -> None:
        """Stop the spinner and write `text`."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        if text:
            self._terminal.styled(text, aside=self._aside)

    def _next_phase(self, label: str) -> None:
        before, began = self._phase
        self._phase = (label, tracing.begin() if label else 0.0)
        tracing.end(began, "phase", before)


@dataclass(frozen=True)
class _Since:
    """A label with the seconds since `start`, and the last lines of `output`; rich renders it at each frame."""

    label: str
    start: float
    output: Path | None = None
    width: int = 80

    def __rich__(self) -> Text:
        from rich.text import Text

        seconds = int(time.monotonic() - self.start)
        text = Text(self.label, no_wrap=True, overflow="ellipsis")
        if seconds:  # cut a long label, not the seconds
            clock = f" ({seconds} s)"
            text.truncate(max(1, self.width - len(clock) - SPINNER), overflow="ellipsis")
            text.append(clock)
        for line in tail(self.output) if self.output is not None else ():
            text.append(f"\n  {line}", "dim")
        return text


def tail(output: Path) -> list[str]:
    """The last lines of the file; none if it does not exist."""
    from repoagent.agent.exec.render_output import render_line
    from repoagent.storage.secrets import mask

    try:
        with output.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            data = file.read()
    except OSError:
        return []
    lines = [render_line(line) for line in data.decode("utf-8", "replace").split("\n")]
    return [one_line(mask(line)) for line in lines if line.strip()][-TAIL:]


_FENCE = re.compile(r"\s*(`{3,}|~{3,})[ \t]*([^\s`]*)")
_TAG = re.compile(r"<([a-z_]+)\b")
_LAST = {"finish", "reject"}  # shown once they are accepted
# not addressed to the user, or printed as a line when they are performed
_HIDDEN = {
    "browse", "commit", "delegate", "files", "history", "keep", "kill", "message", "neighbors", "note", "outline",
    "python", "read", "recall", "restore", "run", "search", "skill", "task", "think", "uses", "wait", "write",
}  # fmt: skip
_ENDS = re.compile(r"</?(?:finish|reject)\b[^>\n]*>")
_UNDECIDED = re.compile(r"\s*(?:<.*|`{0,2}|~{0,2}|```.*|~~~.*)", re.DOTALL)  # may still open a hidden part


@dataclass
class ProseFilter:
    """Extracts the prose, without edits and actions, from a reply that arrives in pieces.

    hides: whether an edit, which is not shown, is being written.
    ends: whether the text of <finish> and <reject> counts as prose.
    """

    hides: bool = False
    ends: bool = False
    _line: str = ""  # the line so far, while it may still open a hidden part
    _passing: bool = False  # the rest of the line is prose
    _closing: re.Pattern[str] | None = field(default=None, repr=False)  # the end of the hidden part

    def feed(self, piece: str) -> str:
        """The prose that `piece` completes."""
        shown = ""
        for part in re.findall(r"[^\n]*\n|[^\n]+", piece):
            ended = part.endswith("\n")
            if not self._passing:
                self._line += part
            if self._closing is not None:
                if ended and self._closing.search(self._line):
                    self._closing, self.hides = None, False
            elif self._passing:
                shown += part
            elif ended or not _UNDECIDED.fullmatch(self._line):
                shown += self._begun()
                self._passing = not ended
            if ended:
                self._line, self._passing = "", False
        return shown

    def rest(self) -> str:
        """The rest of the prose, at the end of the reply."""
        is_shown = self._passing or self._closing is not None or self._opens(self._line)
        text = "" if is_shown else self._prose(self._line)
        self._line, self._passing, self._closing, self.hides = "", False, None, False
        return text

    def _begun(self) -> str:
        """The text of the line so far, or nothing if it opens a hidden part."""
        closing = self._opens(self._line)
        if closing is None:
            return self._prose(self._line)
        if not closing.search(self._line[1:]):
            self._closing, self.hides = closing, _FENCE.match(self._line) is not None
        return ""

    def _opens(self, line: str) -> re.Pattern[str] | None:
        """The end of the hidden part that this line opens; None for prose."""
        if fence := _FENCE.match(line):
            info = fence[2].lower()
            if info in {"diff", "patch"} or "." in info or "/" in info:
                return re.compile(rf"^\s*{fence[1][0]}{{{len(fence[1])},}}\s*$")
            return None
        tag = _TAG.match(line)
        if tag and (tag[1] in _HIDDEN or (tag[1] in _LAST and not self.ends)):
            return re.compile(rf"/>\s*$|</{tag[1]}\b")
        return None

    def _prose(self, line: str) -> str:
        """A line of prose without tags that end a task."""
        return _ENDS.sub("", line) if line.lstrip().startswith("<") else line
