"""`repoagent uses`: where a symbol is used, file by file, as a table or as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from repoagent.cli.session import Session, json_option, pass_session
from repoagent.cli.ui.sanitize import one_line, paint
from repoagent.cli.ui.table import Cell, Column, folded
from repoagent.cli.ui.table import table as table_of
from repoagent.cli.ui.terminal import has_utf8
from repoagent.errors import Exit, UsageError
from repoagent.uses.report import count, definition_lines, files_in_short, lines_of, marks, notes, within

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.uses.query import Answer, Uses

EXAMPLES = """\b
Examples:
  repoagent uses parse_header              where it is defined and used
  repoagent uses Session.get               a method
  repoagent uses src/utils.py:load         the one that this file defines
  repoagent uses src/utils.py              what other files use of it
  repoagent uses Config --json | jq -r '.symbols[].files[].path'

\b
Columns:
  lines  the number of lines in the file that use it
  where  their line numbers
  in     the functions that contain them
  mark   test: a file of tests; text: found as a word, even in comments and
         strings, because the file has no grammar or too many files match to
         parse them all

Files that change together with the definition come first. Uses are matched by
name: in files with a grammar, comments, strings, and local variables of the
same name are excluded, but methods of the same name are not distinguished.

The search covers tracked and new files, but not those that .gitignore or
.repoagentignore exclude or that may hold secrets. It keeps no index. The exit
code is 1 if nothing was found."""


@click.command(epilog=EXAMPLES)
@click.argument("what", metavar="SYMBOL|FILE")
@click.option(
    "-n", "--limit", type=int, metavar="N", default=20, show_default=True, help="Show at most N rows."
)
@json_option
@pass_session
def command(session: Session, /, *, what: str, limit: int, as_json: bool) -> int:
    """Show where SYMBOL is defined and used, or what other files use of FILE.

    SYMBOL is a name, Class.method, or FILE:NAME for the one that a file defines.
    """
    if limit < 1:
        raise UsageError(f"--limit must be at least 1, not {limit}")
    from pathlib import Path

    from repoagent.api.results import uses_of
    from repoagent.git.worktree import open_worktree, relative

    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    terminal = session.terminal()
    found = uses_of(worktree, what, limit=limit, path_of=lambda path: relative(worktree, path, cwd))
    something = any(uses.files or uses.definitions for uses in found.symbols)
    if as_json:
        terminal.styled(render_json(found))
    elif something:
        terminal.styled(render_table(found, terminal))
    else:
        terminal.note(f"no other file uses {what}" if found.file else f"no symbol is named {what}")
    return Exit.DONE if something else Exit.NOTHING


VERSION = 1


def render_json(found: Answer) -> str:
    """All uses as JSON. Paths keep bytes that are not UTF-8 as surrogate escapes."""
    return json.dumps({"version": VERSION, **asdict(found)}, indent=2) + "\n"


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


def render_table(found: Answer, terminal: Terminal) -> str:
    """The heading, a row for each file or symbol, and notes."""
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
        lines += [*_styled(map(one_line, definition_lines(uses)), width, terminal, "bold")]
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
        yield f"{count(more, 'more row')}; show them with --limit."
    if found.unused:
        yield one_line(f"Used in no other file: {', '.join(found.unused)}.")
    if not found.file and not found.symbols[0].files:
        yield "No uses found."
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
