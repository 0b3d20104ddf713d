"""The layout of results: `Page` (width and colors of a terminal or a pipe), tables, and texts for their cells, such as
an age, a bar or a shortened path.

All tables look alike: no rules, a dim header, numbers right-aligned, and one or two columns that shrink to fit the
terminal. Importing rich's tables would take ten times as long as importing this module.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from repoagent.display_text import character_width, display_width, paint, plural, wrap_line

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_SPANS = (  # unit, its length in days, and the age in days from which it is used
    ("year", 365.2425, 365.2425),
    ("month", 30.44, 60.0),
    ("week", 7.0, 14.0),
    ("day", 1.0, 1.0),
    ("hour", 1 / 24, 1 / 24),
    ("minute", 1 / 1440, 1 / 1440),
)
_GAP = 2  # columns of space in a table

Cell = str | tuple[str, ...]  # a text, or a text and its styles; "path" dims the folder of a path


class Column(NamedTuple):
    """A column of a table.

    To make the table fit, texts are shortened at the "end" or in the "middle" (`cut`), to no fewer than `least`
    columns. If that is not enough, whole columns are dropped, the highest `dropped` first; a column with 0 is never
    dropped.
    """

    head: str
    right: bool = False
    cut: str = ""
    least: int = 8
    dropped: int = 0


def age_text(seconds: float, *, short: bool = False) -> str:
    """A duration in its largest suitable unit: "3 weeks ago" or, in short form, "3w"."""
    days = seconds / 86400
    for unit, length, first in _SPANS:
        if days >= first:
            count = int(days / length)
            if short:
                return f"{count}{'mo' if unit == 'month' else unit[0]}"
            return f"{plural(count, unit)} ago"
    return "now" if short else "just now"


def share_bar(share: float, cells: int) -> str:
    """A share from 0 to 1 as a bar of `cells` columns; anything above 0 is visible."""
    filled = round(min(max(share, 0.0), 1.0) * cells * 8)
    whole, rest = divmod(max(filled, share > 0), 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(cells)


def longest_prefix(text: str, limit: int) -> str:
    """The longest beginning of `text` that fits into `limit` columns."""
    used = 0
    for at, character in enumerate(text):
        used += character_width(character)
        if used > limit:
            return text[:at]
    return text


def cut_end(text: str, limit: int) -> str:
    """`text`, cut at its end to at most `limit` columns."""
    if display_width(text) <= limit:
        return text
    return longest_prefix(text, max(0, limit - 1)).rstrip() + "…"[:limit]


def shorten(path: str, limit: int) -> str:
    """`path`, cut in its middle to at most `limit` columns; the file name is cut last."""
    if display_width(path) <= limit:
        return path
    left = max(limit - 1, 1)
    tail = min(max(display_width(path[path.rfind("/") :]), left * 2 // 3), left)
    used, start = 0, len(path)
    while start and used + character_width(path[start - 1]) <= tail:
        start -= 1
        used += character_width(path[start])
    while start < len(path) and character_width(path[start]) == 0:  # a combining mark that lost its character
        start += 1
    return f"{longest_prefix(path, left - display_width(path[start:]))}…{path[start:]}"


class Page(NamedTuple):
    """Lays out results for a terminal or a pipe. `width` is in columns, None for unlimited. All texts must be
    sanitized."""

    width: int | None
    color: bool = False

    @classmethod
    def of(cls, terminal: Terminal, *, least: int = 40, most: int | None = None) -> Page:
        """The page for a terminal, `least` to `most` columns wide, or for a pipe."""
        width = max(least, min(most or terminal.width, terminal.width)) if terminal.output_tty else None
        return cls(width, terminal.color)

    def paint(self, text: str, *styles: str) -> str:
        return paint(text, *styles) if self.color else text

    def cut(self, text: str, room: int | None = None) -> str:
        """Cut a line to at most `room` columns, by default the width of the page."""
        room = self.width if room is None else room
        return text if room is None else cut_end(text, room)

    def ago(self, moment: float, wide: int = 76) -> str:
        """The age of a Unix time, in short form if the page has fewer than `wide` columns."""
        short = self.width is not None and self.width < wide
        return age_text(max(0.0, time.time() - moment), short=short)

    def shorten(self, path: str, room: int | None) -> str:
        """`path`, cut in its middle to at most `room` columns."""
        return path if room is None else shorten(path, room)

    def wrap(self, text: str, *styles: str, indent: str = "", hang: str = "") -> list[str]:
        """Wrap text between words; each line begins with `indent`, all but the first also with `hang`."""
        lines = [text]
        if self.width is not None and display_width(indent + text) > self.width:
            lines = wrap_line(text, self.width - len(indent) - len(hang)).split("\n")
        return [indent + hang * bool(at) + self.paint(line, *styles) for at, line in enumerate(lines)]

    def table(
        self,
        heads: Sequence[Column],
        rows: Sequence[Sequence[Cell]],
        below: Mapping[int, Sequence[str]] | None = None,
    ) -> Iterator[str]:
        """The lines of a table, without columns that are empty. `below` maps the index of a row to the lines to print
        after it."""
        styled: list[list[tuple[str, ...]]] = [
            [(cell,) if isinstance(cell, str) else cell for cell in row] for row in rows
        ]
        natural = {
            at: max(display_width(head.head), *(display_width(row[at][0]) for row in styled))
            for at, head in enumerate(heads)
            if any(row[at][0] for row in styled)
        }
        widths = natural if self.width is None else _fitted(heads, natural, self.width)
        styled.insert(0, [(head.head,) for head in heads])
        for number, row in enumerate(styled):
            cells = []
            for at, room in widths.items():
                text, *styles = row[at]
                if display_width(text) > room:
                    cut = shorten if heads[at].cut == "middle" else cut_end
                    text = cut(text, room)
                pad = " " * (room - display_width(text))
                if number and styles == ["path"]:
                    folder, slash, name = text.rpartition("/")
                    text = self.paint(folder + slash, "dim") + name
                elif number:
                    text = self.paint(text, *styles)
                cells.append(pad + text if heads[at].right else text + pad)
            line = (" " * _GAP).join(cells).rstrip()
            yield line if number else self.paint(line, "dim")
            if number and below:
                yield from below.get(number - 1, ())

    def pairs(self, rows: Iterable[tuple[str, str]], *styles: str, indent: str = "") -> Iterator[str]:
        """The lines of a two-column list: names, painted in `styles`, and wrapped values."""
        rows = list(rows)
        column = indent + " " * (max((display_width(name) for name, _ in rows), default=0) + 2)
        for name, value in rows:
            head = indent + name.ljust(len(column) - len(indent))
            first, *rest = self.wrap(value, indent=column)
            yield self.paint(head, *styles) + first[len(column) :]
            yield from rest

    def write(self, lines: Iterable[str], terminal: Terminal) -> None:
        terminal.styled("".join(f"{line}\n" for line in lines))


def _fitted(heads: Sequence[Column], natural: Mapping[int, int], limit: int) -> dict[int, int]:
    """The columns that fit into `limit`, and their widths."""
    widths = {at: min(width, heads[at].least) if heads[at].cut else width for at, width in natural.items()}

    def left() -> int:
        return limit - sum(widths.values()) - _GAP * (len(widths) - 1)

    while left() < 0 and (droppable := [at for at in widths if heads[at].dropped]):
        del widths[max(droppable, key=lambda at: heads[at].dropped)]
    wanting = sorted((at for at in widths if heads[at].cut), key=lambda at: natural[at] - widths[at])
    for number, at in enumerate(wanting):
        extra = min(natural[at] - widths[at], left() // (len(wanting) - number))
        widths[at] = max(1, widths[at] + extra)
    return widths
