"""What a person sees while a model is waited for: a moving line, then the model's own words as they come.

A model's reply as it is shown while it comes: its words, folded; not the edit, which is shown once it fits.

What a command says, and asks, before and after a model is paid for many calls; an edit has words of its own.
"""

from __future__ import annotations

import re
import sys
import time
from dataclasses import field, replace
from types import TracebackType
from typing import TYPE_CHECKING

from repoagent import tracing
from repoagent.cli.ui.sanitize import clean, display_width, one_line, paint
from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.status import Status
    from rich.text import Text

    from repoagent.cli.ui.markdown import Markdown
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.llm.model import Usage

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
        from repoagent.cli.ui.terminal import in_own_pager

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
        from repoagent.cli.ui.echo import echoed
        from repoagent.cli.ui.terminal import forget_input

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
        self._phase = (label, tracing.begin() if label else 0.0)
        tracing.end(began, "phase", before)


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
    from repoagent.agent.exec.output import drawn
    from repoagent.storage.secrets import mask

    try:
        with output.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            data = file.read()
    except OSError:
        return []
    lines = [drawn(line) for line in data.decode("utf-8", "replace").split("\n")]
    return [one_line(mask(line)) for line in lines if line.strip()][-TAIL:]


_FENCE = re.compile(r"\s*(`{3,}|~{3,})[ \t]*([^\s`]*)")
_TAG = re.compile(r"<([a-z_]+)\b")
_DATA = {"commit", "note", "think"}  # their bodies are no words to the person, or are shown elsewhere
_LAST = {"finish", "reject"}  # shown when they have become true
# Said in other words when they are done.
_ACTIONS = {
    "browse", "delegate", "files", "history", "keep", "kill", "message", "neighbors", "outline", "python", "read",
    "recall", "restore", "run", "search", "skill", "task", "uses", "wait", "write",
}  # fmt: skip
_ENDS = re.compile(r"</?(?:finish|reject)\b[^>\n]*>")


@dataclass
class Words:
    """What of a reply is shown. `hides` says that an edit is being written at the moment; `ends` that what ends a task
    is shown too, as it has become true."""

    hides: bool = False
    ends: bool = False
    _line: str = ""  # the line so far; nothing of it is shown while it may become the head of something
    _passing: bool = False
    _closing: re.Pattern[str] | None = field(default=None, repr=False)
    _blank: int = 0  # lines that are shown once words come after them
    _most: int = 0  # of them: none before the first words of a reply, one where something hidden stood

    def feed(self, piece: str) -> str:
        """The part that is to be shown of the reply up to the end of `piece`, and was not shown before."""
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
            elif ended or not _undecided(self._line):
                shown += self._begun()
                self._passing = not ended
            if ended:
                self._line, self._passing = "", False
        return shown

    def rest(self) -> str:
        """What was held back at the end of the reply."""
        line, passing, hidden = self._line, self._passing, self._closing
        self._line, self._passing, self._closing, self.hides = "", False, None, False
        last = (
            ""
            if passing or hidden is not None or self._opens(line)
            else self._with_blank(_without_ends(line))
        )
        self._blank = self._most = 0
        return last

    def _begun(self) -> str:
        """Look at the line as far as it goes: its text, or nothing where something hidden begins with it."""
        closing = self._opens(self._line)
        if closing is None:
            return self._with_blank(_without_ends(self._line))
        self._most = min(self._most, 1)
        if not closing.search(self._line[1:]):
            self._closing, self.hides = closing, _FENCE.match(self._line) is not None
        return ""

    def _opens(self, line: str) -> re.Pattern[str] | None:
        """What ends the hidden part that begins with this line; None for a line of words."""
        if fence := _FENCE.match(line):
            info = fence[2].lower()
            if info in {"diff", "patch"} or "." in info or "/" in info:
                return re.compile(rf"^\s*{fence[1][0]}{{{len(fence[1])},}}\s*$")
            return None
        tag = _TAG.match(line)
        if tag is None or tag[1] not in _DATA | _ACTIONS | (set() if self.ends else _LAST):
            return None
        return re.compile(rf"/>\s*$|</{tag[1]}\b")

    def _with_blank(self, line: str) -> str:
        """A line of words after the blank ones before it."""
        if not line.strip():
            self._blank += line.endswith("\n")
            return ""
        blank, self._blank = min(self._blank, self._most), 0
        self._most = sys.maxsize
        return "\n" * blank + line


@dataclass
class Fold:
    """Folds words that come in pieces at `width` columns, between words."""

    width: int
    _column: int = 0
    _gap: str = ""
    _word: str = ""

    def feed(self, text: str) -> str:
        """The text, folded, up to its last whole word."""
        done = ""
        for token in re.findall(r"\n|[^\S\n]+|\S+", text):
            if token == "\n":
                done += self.rest() + "\n"
                self._column = 0
            elif token.isspace():
                done += self._put()
                self._gap += token
            else:
                self._word += token
        return done

    def rest(self) -> str:
        """The last word, and no gap after it."""
        word = self._put()
        self._gap = ""
        return word

    def _put(self) -> str:
        word, self._word = self._word, ""
        if not word:
            return ""
        gap, self._gap = self._gap, ""
        shown = clean(word)
        size = display_width(clean(gap), self._column)
        if self._column and self._column + size + display_width(shown) > self.width:
            gap, self._column, size = "\n", 0, 0
        self._column += size + display_width(shown)
        return gap + word


class Plain(Fold):
    """Words as they are, folded and clean: for a terminal that shows no styles."""

    holds_table = False

    def feed(self, text: str) -> str:
        return clean(super().feed(text.replace("\r\n", "\n")))

    def rest(self) -> str:
        return clean(super().rest())


def _without_ends(line: str) -> str:
    """The line without the tags that end a task, where it begins with one."""
    return _ENDS.sub("", line) if line.lstrip().startswith("<") else line


def _undecided(line: str) -> bool:
    """Whether more of the line has to come before it is known what begins with it."""
    text = line.lstrip()
    return (
        not text
        or text.startswith("<")
        or any(text.startswith(mark) or mark.startswith(text) for mark in ("```", "~~~"))
    )


def ready_for(
    settings: Settings,
    terminal: Terminal,
    waiting: Working,
    *,
    record: Path | None = None,
    reply: Path | None = None,
) -> ModelSetup:
    """The model and its meter for a command that knows how many calls it makes: the default of `max_turns` is a limit
    for an edit. Raises what `means` raises."""
    from repoagent.edit.model_setup import model_setup

    ready = model_setup(settings, record, reply, terminal.warn, waiting.progress)
    if settings.origin("max_turns") == "default":
        ready.meter.limits = replace(ready.meter.limits, turns=None)
    return ready


def about(calls: int, usage: Usage, cost: float | None) -> str:
    """How many calls, how many tokens, how many dollars: the end of the sentence that says what will be paid."""
    from repoagent.llm.usage import cost_text

    price = "at a price that is not known" if cost is None else f"about {cost_text(cost)}"
    return f"in {calls:,} call{'s' * (calls > 1)}: about {usage.input:,} tokens in and {usage.output:,} out, {price}"


def agree(terminal: Terminal, sentence: str, *, few: bool, less: str) -> None:
    """Say what it will cost; ask, unless it is only a `few` calls. `less` is what to say for fewer of them.

    Raises UsageError where nobody can say yes, NothingDone where somebody says no.
    """
    if few:
        if terminal.tells:
            terminal.note(sentence, "dim")
        return
    if not terminal.can_ask:
        raise UsageError(f"{sentence}: say --yes to do that, or {less}")
    terminal.note(sentence)
    if terminal.ask("Go on", {"y": "ask the model", "n": "ask nobody"}) == "n":
        raise NothingDone("no model was asked")


def report(terminal: Terminal, ready: ModelSetup) -> None:
    """Say what was used, where somebody reads it."""
    from repoagent.llm.usage import cost_text

    usage, cost = ready.meter.usage, ready.meter.cost
    if terminal.tells and usage.total:
        price = "price unknown" if cost is None else cost_text(cost)
        roughly = "~" if usage.estimated else ""
        terminal.note(f"{roughly}{usage.total - usage.output:,} + {usage.output:,} tokens · {price}", "dim")


def as_object(ready: ModelSetup) -> dict[str, object]:
    """What was used, as JSON data."""
    usage = ready.meter.usage
    return {
        "calls": ready.meter.attempts,
        "usage": {"input": usage.total - usage.output, "output": usage.output, "estimated": usage.estimated},
        "cost": ready.meter.cost,
    }
