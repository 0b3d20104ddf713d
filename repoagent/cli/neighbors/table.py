"""A neighborhood as a table that is read at a glance."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from repoagent.cli.screen.clean import one_line, paint
from repoagent.cli.screen.glance import ago, bar, columns, front, shorten
from repoagent.cli.screen.terminal import has_utf8
from repoagent.history.wording import guidance, headline, rate, scale_of, why

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.history.cochange.score import Neighbor
    from repoagent.history.evidence import Told
    from repoagent.history.neighbors import Neighborhood

HEAD = ("file", "score", "together", "rate", "last", "why")
_RATE_STYLE = {"high": "green", "medium": "yellow", "low": "dim"}
_LEAST_PATH = 14
EXPLAINED = 10  # commits behind a row
_GAP = 2


class Style(NamedTuple):
    """How much room there is (None for as much as it takes), whether to paint, and whether only ASCII is shown."""

    width: int | None
    color: bool
    ascii: bool


def render(found: Neighborhood, told: Mapping[str, Told], terminal: Terminal) -> str:
    """The table for this terminal, or for a pipe: there with whole paths, and nothing in it that a terminal obeys."""
    style = Style(terminal.width if terminal.shows else None, terminal.color, not has_utf8(os.environ))
    return table(found, told, style, time.time())


def table(found: Neighborhood, told: Mapping[str, Told], style: Style, now: float) -> str:
    """The head line, a line for each row with the commits behind it if they are `told`, and what to make of it. `now`
    is in seconds since 1970."""
    lines = [*_wrapped(headline(found), style, "bold")]
    if found.note:
        lines += _wrapped(found.note, style, "yellow")
    if found.rows:
        lines += ["", *_rows(found, told, style, now), "", *_wrapped(guidance(found), style, "dim")]
    return "".join(f"{line}\n" for line in lines)


class _Shape(NamedTuple):
    """What stands beside the path, more where there is more room: the cells of the bar; the score and the rate as
    numbers; how long ago in words; two reasons in words, the first, or the first in a word (0)."""

    bar: int
    numbers: bool
    words: bool
    why: int


_SHAPES = (
    _Shape(10, True, True, 2),
    _Shape(10, True, True, 1),
    _Shape(8, False, True, 1),
    _Shape(8, False, True, 0),
    _Shape(6, False, False, 0),
)
_ENOUGH_PATH = (44, 36, 28, 26, 0)  # columns for the path that make a shape good enough


def _rows(found: Neighborhood, told: Mapping[str, Told], style: Style, now: float) -> Iterator[str]:
    names = [one_line(os.fsdecode(row.path)) for row in found.rows]
    longest = max(len(HEAD[0]), *map(columns, names))
    scale = scale_of(found.rows)
    bars = [scale(row.score) for row in found.rows]
    for shape, enough in zip(_SHAPES, _ENOUGH_PATH, strict=True):
        cells = [
            HEAD[1:],
            *(_cells(row, share, shape, style, now) for row, share in zip(found.rows, bars, strict=True)),
        ]
        widths = [max(map(columns, column)) for column in zip(*cells, strict=True)]
        room = longest if style.width is None else style.width - sum(widths) - _GAP * len(widths)
        if room >= min(longest, enough):
            break
    path_width = max(min(longest, room), min(_LEAST_PATH, longest))
    yield paint(_line(HEAD[0], cells[0], path_width, widths), *(("bold",) if style.color else ()))
    for row, name, values in zip(found.rows, names, cells[1:], strict=True):
        shown = shorten(name, path_width, "..." if style.ascii else "…")
        if style.color:
            yield _painted(shown, values, row, path_width, widths)
        else:
            yield _line(shown, values, path_width, widths)
        if told:
            yield from _behind(row, found, told, style)


def _line(name: str, cells: Sequence[str], path_width: int, widths: Sequence[int]) -> str:
    gap = " " * _GAP
    filled = [_fill(cell, room, place) for place, (cell, room) in enumerate(zip(cells, widths, strict=True))]
    return f"{_pad(name, path_width)}{gap}{gap.join(filled)}".rstrip()


def _painted(name: str, cells: Sequence[str], row: Neighbor, path_width: int, widths: Sequence[int]) -> str:
    gap = " " * _GAP
    filled = [_fill(cell, room, place) for place, (cell, room) in enumerate(zip(cells, widths, strict=True))]
    folder, slash, base = name.rpartition("/")
    shown = paint(folder + slash, "dim") + base + " " * (path_width - columns(name))
    style = _RATE_STYLE[rate(row.together, row.commits) or "low"]
    styles = ("cyan", None, style, None, "dim")
    filled[-1] = filled[-1].rstrip()
    return (
        shown
        + gap
        + gap.join(paint(cell, one) if one else cell for cell, one in zip(filled, styles, strict=True))
    )


def _fill(cell: str, room: int, place: int) -> str:
    return cell.rjust(room) if HEAD[place + 1] == "together" else _pad(cell, room)


def _pad(text: str, room: int) -> str:
    return text + " " * (room - columns(text))


def _cells(
    row: Neighbor, share: float, shape: _Shape, style: Style, now: float
) -> tuple[str, str, str, str, str]:
    none = "-" if style.ascii else "–"
    score = bar(share, shape.bar, ascii_only=style.ascii) + (f" {row.score:.2f}" if shape.numbers else "")
    often = rate(row.together, row.commits)
    percent = f"{round(100 * row.together / row.commits):>3}% " if often and shape.numbers else ""
    return (
        score,
        f"{row.together} of {row.commits}" if row.together else none,
        percent + often if often else none,
        none if row.last is None else ago(now - row.last, short=not shape.words),
        why(row.reasons[: shape.why or 1], short=shape.why < 2),
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
        yield paint(line[:head], "dim") + paint(short, "yellow") + tail if style.color else line
    if row.together > EXPLAINED:
        yield f"    and {row.together - EXPLAINED} more"


def _wrapped(text: str, style: Style, *styles: str) -> Iterator[str]:
    """Words in lines of the terminal's width; a word that is longer than that is cut in its middle."""
    line = ""
    room = style.width
    for word in one_line(text).split(" "):
        if room is not None:
            word = shorten(word, room, "..." if style.ascii else "…")
            if line and columns(line) + 1 + columns(word) > room:
                yield paint(line, *styles) if style.color else line
                line = ""
        line = f"{line} {word}" if line else word
    yield paint(line, *styles) if style.color else line
