"""`repoagent uses`: where a symbol is used, file by file, as a table or as JSON."""

from __future__ import annotations

from dataclasses import asdict

import click

from repoagent.cli.options import rows_option
from repoagent.cli.session import Repository, pass_repository
from repoagent.cli.ui.table import Cell, Column, Page
from repoagent.display_text import one_line, plural
from repoagent.errors import Exit
from repoagent.uses.report import caveats, definition_lines, files_in_short, lines_of, marks, using_functions

EXAMPLES = """\b
Examples:
  repoagent uses parse_header              where it is defined and used
  repoagent uses Session.get               a method
  repoagent uses src/utils.py:load         the definition in this file
  repoagent uses src/utils.py              what other files use from this file
  repoagent uses Config --json | jq -r '.symbols[].files[].path'

Files that change together with the definition come first. Uses are matched by
name: in files with a grammar, comments, strings, and local variables of the
same name are excluded. In files marked "text", they are not.

The search covers tracked and new files, but not those that .gitignore or
.repoagentignore exclude or that may hold secrets. It keeps no index. The exit
code is 1 if nothing was found."""

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


@click.command(epilog=EXAMPLES)
@click.argument("target", metavar="SYMBOL|FILE")
@rows_option()
@pass_repository
def command(repo: Repository, /, *, target: str, limit: int) -> int:
    """Show where SYMBOL is defined and used, or what other files use from FILE.

    SYMBOL is a name, Class.method, or FILE:NAME for the definition in that file.
    """
    from repoagent.edit.guards.off_limits import off_limits_gate
    from repoagent.uses.report import answer_uses

    withheld = off_limits_gate(repo.worktree.top, ())
    answer = answer_uses(repo.worktree, target, withheld, limit=limit, path_of=repo.relative)
    if not any(uses.files or uses.definitions for uses in answer.symbols):
        nothing = f"no other file uses {target}" if answer.file else f"no symbol named {target}"
        repo.emit(asdict(answer), notes=[nothing])
        return Exit.NOTHING
    page = Page.of(repo.terminal, least=1)
    first = answer.symbols[0]
    rows: list[tuple[Cell, ...]] = []
    if answer.file:
        number = plural(len(answer.symbols) + answer.more, "symbol")
        heading = [f"{answer.file}: {number} used in other files"]
        for uses in answer.symbols:
            total = sum(len(row.lines) for row in uses.files)
            also = f"{len(uses.elsewhere)} more defined" if uses.elsewhere else ""
            where = one_line(files_in_short(uses.files))
            numbers = ((f"{total}",), (f"{len(uses.files)}", "dim"))
            rows.append(((one_line(uses.symbol), "path"), *numbers, (where, "dim"), (also, "dim")))
    else:
        heading = list(definition_lines(first))
        for row in first.files:
            dim = (lines_of(row), one_line(using_functions(row)), marks(row))
            number = f"{len(row.lines)}"
            rows.append(((one_line(row.path), "path"), (number,), *((text, "dim") for text in dim)))
    lines = [line for text in heading for line in page.wrap(one_line(text), "bold")]
    if rows:
        lines += ["", *page.table(COLUMNS["symbol" if answer.file else "file"], rows), ""]
    more = answer.more or sum(uses.more for uses in answer.symbols)
    ends = [f"{plural(more, 'more row')}; show them with --limit."] if more else []
    if answer.unused:
        ends.append(f"Used in no other file: {', '.join(answer.unused)}.")
    if not answer.file and not first.files:
        ends.append("No uses found.")
    lines += [line for text in (*ends, *caveats(answer)) for line in page.wrap(one_line(text), "dim")]
    repo.emit(asdict(answer), lines)
    return Exit.DONE
