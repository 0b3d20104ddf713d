"""The layout of a result on a terminal or in a pipe: its width, whether it has colors and non-ASCII characters."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from repoagent.cli.ui.table import Cell, Column, ago, columns, cut_end, front, shorten, table
from repoagent.cli.ui.terminal_text import fold, paint

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal


class Page(NamedTuple):
    """`width` is in columns, None for unlimited. All texts must be sanitized."""

    width: int | None
    color: bool = False
    ascii: bool = False

    @classmethod
    def of(cls, terminal: Terminal, *, least: int = 40, most: int | None = None) -> Page:
        """The page of a terminal, `least` to `most` columns wide, or of a pipe."""
        from repoagent.cli.ui.terminal import has_utf8

        width = max(least, min(most or terminal.width, terminal.width)) if terminal.output_tty else None
        return cls(width, terminal.color, not has_utf8(os.environ))

    @property
    def dots(self) -> str:
        """The ellipsis of a cut text."""
        return "..." if self.ascii else "…"

    def paint(self, text: str, *styles: str) -> str:
        return paint(text, *styles) if self.color else text

    def cut(self, text: str, room: int | None = None) -> str:
        """Cut a line to at most `room` columns, by default the width of the page."""
        room = self.width if room is None else room
        return text if room is None else cut_end(text, room, self.dots)

    def ago(self, moment: float, wide: int = 76) -> str:
        """The age of a Unix time, in short form if the page has less than `wide` columns."""
        short = self.width is not None and self.width < wide
        return ago(max(0.0, time.time() - moment), short=short)

    def shorten(self, path: str, room: int | None) -> str:
        """A path cut in its middle to at most `room` columns."""
        return path if room is None else shorten(path, room, self.dots)

    def wrap(self, text: str, indent: str = "", hang: str = "", *styles: str) -> list[str]:
        """Wrap text between words; each line begins with `indent`, all but the first also with `hang`."""
        lines = [text]
        if self.width is not None and columns(indent + text) > self.width:
            lines = fold(text, self.width - len(indent) - len(hang)).split("\n")
        return [indent + hang * bool(at) + self.paint(line, *styles) for at, line in enumerate(lines)]

    def sentence(self, text: str, *styles: str) -> Iterator[str]:
        """Wrap text between words; a word longer than a line is cut in its middle."""
        for line in text.split("\n") if self.width is None else fold(text, self.width).split("\n"):
            yield self.paint(self.shorten(line, self.width), *styles)

    def table(
        self,
        heads: Sequence[Column],
        rows: Sequence[Sequence[Cell]],
        below: Mapping[int, Sequence[str]] | None = None,
    ) -> Iterator[str]:
        """The lines of a table; see `ui.table`."""
        return table(heads, rows, self.width, color=self.color, ellipsis=self.dots, below=below)

    def pairs(self, rows: Iterable[tuple[str, str]], *styles: str, indent: str = "") -> Iterator[str]:
        """Names in a column with these styles, and values wrapped in the next column."""
        rows = list(rows)
        column = indent + " " * (max((columns(name) for name, _ in rows), default=0) + 2)
        for name, value in rows:
            head = indent + name.ljust(len(column) - len(indent))
            first, *rest = self.wrap(value, column)
            yield self.paint(head, *styles) + first[len(column) :]
            yield from rest

    def write(self, lines: Iterable[str], terminal: Terminal) -> None:
        """Write the lines as a part of the result."""
        terminal.styled("".join(f"{line}\n" for line in lines))


def fit(text: str, room: int | None) -> Iterator[str]:
    """The text in lines of at most `room` columns, folded between words; longer words are broken."""
    for line in [text] if room is None else fold(text, room).split("\n"):
        while room is not None and columns(line) > room:
            start = front(line, room) or line[0]
            yield start
            line = line[len(start) :]
        yield line


def plural(number: int, noun: str) -> str:
    """A number with a noun: 1 note, 2,000 notes, 3 memories."""
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun}"
