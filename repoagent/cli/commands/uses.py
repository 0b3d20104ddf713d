"""`repoagent uses`: where a symbol is used, file by file, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from repoagent.cli.repository import open_repository
from repoagent.cli.session import Session, json_option, pass_session, write_json
from repoagent.cli.ui.output_style import Page
from repoagent.cli.ui.table import Cell, Column
from repoagent.cli.ui.terminal_text import one_line
from repoagent.errors import Exit, UsageError
from repoagent.uses.report import count, definition_lines, files_in_short, lines_of, marks, notes, within

if TYPE_CHECKING:
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
    from repoagent.api.results import uses_of

    repo = open_repository(session)
    terminal = repo.terminal
    answer = uses_of(repo.worktree, what, limit=limit, path_of=repo.relative)
    something = any(uses.files or uses.definitions for uses in answer.symbols)
    if as_json:
        write_json(terminal, asdict(answer))
    elif something:
        page = Page.of(terminal, least=1)
        page.write(_lines(answer, page), terminal)
    else:
        terminal.note(f"no other file uses {what}" if answer.file else f"no symbol is named {what}")
    return Exit.DONE if something else Exit.NOTHING


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


def _lines(answer: Answer, page: Page) -> Iterator[str]:
    """The heading, a row for each file or symbol, and notes."""
    if answer.file:
        number = count(len(answer.symbols) + answer.more, "symbol")
        heading = [f"{one_line(answer.file)}: {number} used in other files"]
        kind, rows = "symbol", [_symbol(uses) for uses in answer.symbols]
    else:
        uses = answer.symbols[0]
        heading = [one_line(line) for line in definition_lines(uses)]
        kind, rows = "file", [_file(uses, number) for number in range(len(uses.files))]
    for text in heading:
        yield from page.sentence(text, "bold")
    if rows:
        cells: list[list[Cell]] = [
            [(row[0], "path"), *((cell, "dim") if at > 1 else (cell,) for at, cell in enumerate(row[1:], 1))]
            for row in rows
        ]
        yield from ("", *page.table(COLUMNS[kind], cells), "")
    for text in _ends(answer):
        yield from page.sentence(text, "dim")


def _ends(answer: Answer) -> Iterator[str]:
    more = answer.more or sum(uses.more for uses in answer.symbols)
    if more:
        yield f"{count(more, 'more row')}; show them with --limit."
    if answer.unused:
        yield one_line(f"Used in no other file: {', '.join(answer.unused)}.")
    if not answer.file and not answer.symbols[0].files:
        yield "No uses answer."
    yield from map(one_line, notes(answer))


def _file(uses: Uses, number: int) -> tuple[str, ...]:
    row = uses.files[number]
    return one_line(row.path), str(len(row.lines)), lines_of(row), one_line(within(row)), marks(row)


def _symbol(uses: Uses) -> tuple[str, ...]:
    total = str(sum(len(row.lines) for row in uses.files))
    others = f"{len(uses.elsewhere)} more defined" if uses.elsewhere else ""
    return one_line(uses.symbol), total, str(len(uses.files)), one_line(files_in_short(uses.files)), others
