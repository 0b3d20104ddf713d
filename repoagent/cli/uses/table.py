"""Uses as a table that fits the terminal; in a pipe with whole paths."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from repoagent.cli.screen.clean import one_line, paint
from repoagent.cli.screen.glance import Cell, Column, folded
from repoagent.cli.screen.glance import table as table_of
from repoagent.cli.screen.terminal import has_utf8
from repoagent.uses.wording import count, files_in_short, heads, lines_of, marks, notes, within

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.uses import Answer, Uses

COLUMNS = {
    "file": (
        Column("file", cut="middle", least=28),
        Column("lines", right=True),
        Column("where", cut="end", least=12),
        Column("in", cut="end", least=20, dropped=1),
        Column("mark", dropped=2),
    ),
    "symbol": (
        Column("symbol", cut="middle", least=28),
        Column("lines", right=True),
        Column("files", right=True),
        Column("where", cut="end", least=12),
        Column("also", dropped=1),
    ),
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
        cells: list[list[Cell]] = [
            [(row[0], "path"), *((cell, "dim") if at > 1 else (cell,) for at, cell in enumerate(row[1:], 1))]
            for row in rows
        ]
        lines += ["", *table_of(COLUMNS[kind], cells, width, color=terminal.color), ""]
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


def _styled(
    texts: Sequence[str] | Iterator[str], width: int | None, terminal: Terminal, style: str
) -> Iterator[str]:
    """Sentences in lines of the terminal's width."""
    for text in texts:
        for line in folded(text, width):
            yield paint(line, style) if terminal.color else line
