"""Uses as a table that fits the terminal; in a pipe with whole paths."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from repoagent.cli.screen.clean import one_line, paint
from repoagent.cli.screen.glance import columns, front, shorten
from repoagent.cli.screen.terminal import has_utf8
from repoagent.uses.wording import count, files_in_short, heads, lines_of, marks, notes, within

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.uses import Answer, Uses

_GAP = 2
_LEAST, _LEAST_WITHIN = 14, 20  # columns of a path, and of the functions
_HEADS = {
    "file": ("file", "lines", "where", "in", "mark"),
    "symbol": ("symbol", "lines", "files", "where", "also"),
}


def render(found: Answer, terminal: Terminal) -> str:
    """The head lines, a row for each file or symbol, and what to know of them."""
    width = terminal.width if terminal.shows else None
    ascii_only = width is not None and not has_utf8(os.environ)
    lines = []
    if found.file:
        head = (
            f"{one_line(found.file)}: {count(len(found.symbols) + found.more, 'symbol')} used in other files"
        )
        lines += [*_styled([head], width, terminal, "bold")]
        kind, rows = "symbol", [_symbol(uses) for uses in found.symbols]
    else:
        uses = found.symbols[0]
        lines += [*_styled(map(one_line, heads(uses)), width, terminal, "bold")]
        kind, rows = "file", [_file(uses, number) for number in range(len(uses.files))]
    if rows:
        lines += ["", *_rows(_HEADS[kind], rows, width, terminal), ""]
    lines += [*_styled(_ends(found), width, terminal, "dim")]
    text = "".join(f"{line}\n" for line in lines)
    return text.replace("…", ".") if ascii_only else text


def _ends(found: Answer) -> Iterator[str]:
    more = found.more or sum(uses.more for uses in found.symbols)
    if more:
        yield f"{count(more, 'more row')}: use --limit to see them."
    if found.unused:
        yield one_line(f"Used in no other file: {', '.join(found.unused)}.")
    if not found.file and not found.symbols[0].files:
        yield "No use was found."
    yield from map(one_line, notes(found))


def _file(uses: Uses, number: int) -> tuple[str, ...]:
    row = uses.files[number]
    return one_line(row.path), str(len(row.lines)), lines_of(row), one_line(within(row)), marks(row)


def _symbol(uses: Uses) -> tuple[str, ...]:
    total = str(sum(len(row.lines) for row in uses.files))
    others = f"{len(uses.elsewhere)} more defined" if uses.elsewhere else ""
    return one_line(uses.symbol), total, str(len(uses.files)), one_line(files_in_short(uses.files)), others


def _rows(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, terminal: Terminal
) -> Iterator[str]:
    """The rows with aligned columns. Where there is little room, the column of the functions goes first, then the
    numbers are cut."""
    used = [place for place in range(len(head)) if place < 2 or any(row[place] for row in rows)]
    while True:
        table = [[row[place] for place in used] for row in (head, *rows)]
        widths = [max(map(columns, cells)) for cells in zip(*table, strict=True)]
        room = None if width is None else width - sum(widths) - _GAP * (len(widths) - 1)
        if room is None or room >= 0:
            break
        if head[0] == "file" and 3 in used:
            if (left := widths[used.index(3)] + room) >= _LEAST_WITHIN:
                widths[used.index(3)] = left
                break
            used.remove(3)
            continue
        _fit(widths, -room, [used.index(place) for place in (_wide(head), 0) if place in used])
        break
    for number, cells in enumerate(table):
        shown = [
            _cell(cell, place, room, used)
            for place, (cell, room) in enumerate(zip(cells, widths, strict=True))
        ]
        shown[-1] = shown[-1].rstrip()
        if terminal.color:
            shown = [
                paint(cell, "bold") if not number else paint(cell, "dim") if used[place] > 2 else cell
                for place, cell in enumerate(shown)
            ]
        yield (" " * _GAP).join(shown).rstrip()


def _wide(head: Sequence[str]) -> int:
    return head.index("where")


def _fit(widths: list[int], much: int, places: Sequence[int]) -> None:
    """Take `much` columns from these, down to what can still be read."""
    for place, least in zip(places, (10, _LEAST), strict=False):
        taken = min(much, max(0, widths[place] - least))
        widths[place] -= taken
        much -= taken


def _cell(text: str, place: int, room: int, used: Sequence[int]) -> str:
    if columns(text) > room:
        text = shorten(text, room) if used[place] == 0 else front(text, room - 1) + "…"
    space = " " * (room - columns(text))
    return space + text if used[place] == 1 else text + space


def _styled(
    texts: Sequence[str] | Iterator[str], width: int | None, terminal: Terminal, style: str
) -> Iterator[str]:
    """Sentences in lines of the terminal's width."""
    for text in texts:
        line = ""
        for word in text.split(" "):
            word = word if width is None else shorten(word, width)
            if width is not None and line and columns(line) + 1 + columns(word) > width:
                yield paint(line, style) if terminal.color else line
                line = ""
            line = f"{line} {word}" if line else word
        yield paint(line, style) if terminal.color else line
