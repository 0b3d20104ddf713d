"""A neighborhood as a table that is read at a glance."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from repoagent.cli.screen.clean import one_line, paint
from repoagent.cli.screen.glance import Cell, Column, ago, bar, columns, folded, front
from repoagent.cli.screen.glance import table as table_of
from repoagent.cli.screen.terminal import has_utf8
from repoagent.history.wording import guidance, headline, hidden, is_weak, legend, rate, scale_of, why

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.history.cochange.score import Neighbor
    from repoagent.history.evidence import Told
    from repoagent.history.neighbors import Neighborhood

COLUMNS = (
    Column("file", cut="middle", least=28),
    Column("score"),
    Column("together", right=True),
    Column("rate"),
    Column("last", dropped=1),
    Column("why", dropped=2),
)
_RATE_STYLE = {"high": "green", "medium": "yellow", "low": "dim"}
EXPLAINED = 10  # commits behind a row
_WIDE, _MEDIUM = 110, 76  # columns from which numbers and two reasons are shown, and how long ago in words


class Style(NamedTuple):
    """How much room there is (None for as much as it takes), whether to paint, and whether only ASCII is shown."""

    width: int | None
    color: bool
    ascii: bool

    def paint(self, text: str, *styles: str) -> str:
        return paint(text, *styles) if self.color else text


def render(found: Neighborhood, told: Mapping[str, Told], terminal: Terminal, *, weak: bool = True) -> str:
    """The table for this terminal, or for a pipe: there with whole paths, and nothing in it that a terminal obeys.
    Without `weak` pairs of little evidence are only counted."""
    style = Style(terminal.width if terminal.shows else None, terminal.color, not has_utf8(os.environ))
    return table(found, told, style, time.time(), weak=weak)


def table(
    found: Neighborhood, told: Mapping[str, Told], style: Style, now: float, *, weak: bool = True
) -> str:
    """The head line, a line for each row with the commits behind it if they are `told`, and what to make of it. `now`
    is in seconds since 1970."""
    left_out = 0 if weak else sum(map(is_weak, found.rows))
    shown = found._replace(rows=tuple(row for row in found.rows if weak or not is_weak(row)))
    lines = [*_wrapped(headline(shown), style, "bold")]
    if found.note:
        lines += _wrapped(found.note, style, "yellow")
    if shown.rows:
        lines += ["", *_rows(shown, told, style, now), ""]
        for sentence in (guidance(shown), legend(shown.rows)):
            lines += _wrapped(sentence, style, "dim")
    if left_out:
        lines += _wrapped(hidden(left_out), style, "dim")
    return "".join(f"{line}\n" for line in lines)


def _rows(found: Neighborhood, told: Mapping[str, Told], style: Style, now: float) -> Iterator[str]:
    scale = scale_of(found.rows)
    rows = [_cells(row, scale(row.score), style, now) for row in found.rows]
    below = (
        {number: list(_behind(row, found, told, style)) for number, row in enumerate(found.rows)}
        if told
        else {}
    )
    ellipsis = "..." if style.ascii else "…"
    return table_of(COLUMNS, rows, style.width, color=style.color, ellipsis=ellipsis, below=below)


def _cells(row: Neighbor, share: float, style: Style, now: float) -> tuple[Cell, ...]:
    none = "-" if style.ascii else "–"
    wide = style.width is None or style.width >= _WIDE
    medium = wide or (style.width or 0) >= _MEDIUM
    score = bar(share, 10 if wide else 8 if medium else 6, ascii_only=style.ascii)
    often = rate(row.together, row.commits)
    percent = f"{round(100 * row.together / row.commits):>3}% " if often and wide else ""
    return (
        (one_line(os.fsdecode(row.path)), "path"),
        (score + (f" {row.score:.2f}" if wide else ""), "cyan"),
        (f"{row.together} of {row.commits}" if row.together else none,),
        (percent + often if often else none, _RATE_STYLE[often or "low"]),
        (none if row.last is None else ago(now - row.last, short=not medium),),
        (why(row.reasons[: 2 if wide else 1], short=not wide), "dim"),
    )


def _behind(row: Neighbor, found: Neighborhood, told: Mapping[str, Told], style: Style) -> Iterator[str]:
    """The newest commits behind a row, each cut where the terminal ends."""
    for number in row.evidence[:EXPLAINED]:
        one = told.get(found.ids[number])
        if one is None:
            yield f"    {found.ids[number][:12]} is not here"
            continue
        date, short = one_line(one.date[:10]), one_line(one.short)
        line = f"    {date} {short} {one_line(one.author)}: {one_line(one.subject) or '(no subject)'}"
        if style.width is not None and columns(line) > style.width:
            line = front(line, style.width - 1) + ("." if style.ascii else "…")
        head = len(date) + 5
        tail = line[head + len(short) :]
        yield style.paint(line[:head], "dim") + style.paint(short, "yellow") + tail
    if row.together > EXPLAINED:
        yield f"    and {row.together - EXPLAINED} more"


def _wrapped(text: str, style: Style, *styles: str) -> Iterator[str]:
    """Words in lines of the terminal's width."""
    for line in folded(one_line(text), style.width, "..." if style.ascii else "…"):
        yield style.paint(line, *styles)
