"""`repoagent uses`: where a symbol is used, file by file, as a table or as data."""

from __future__ import annotations

import click

from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import Exit, UsageError

EXAMPLES = """\b
Examples:
  repoagent uses parse_header              where it is defined and used
  repoagent uses Session.get               a method
  repoagent uses src/utils.py:load         the one that this file defines
  repoagent uses src/utils.py              what other files use of it
  repoagent uses Config --json | jq -r '.symbols[].files[].path'

\b
Columns:
  lines  how many lines of the file use it
  where  their numbers
  in     the functions that they are in
  mark   test: a file of tests; text: found as a word, in comments and
         strings too, as the file has no grammar, or more files have the name
         than are parsed

Files that change together with the one that defines the symbol come first.
Uses are matched by name: in code that has a grammar, comments, strings, and
parameters and variables of the same name are left out, but two methods of one
name are not told apart.

Tracked files are searched, and those that git does not know yet; ignored ones
are not, nor those that .repoagentignore or their names withhold. No index is
kept. The exit code is 1 when nothing
was found."""


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
        raise UsageError(f"--limit {limit} leaves nothing to show: use 1 or more")
    from pathlib import Path

    from repoagent.repo.worktree import open_worktree, relative
    from repoagent.work.answers.uses import uses_of

    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    terminal = session.terminal()
    found = uses_of(worktree, what, limit=limit, path_of=lambda path: relative(worktree, path, cwd))
    something = any(uses.files or uses.definitions for uses in found.symbols)
    if as_json:
        from repoagent.cli.uses.as_json import render

        terminal.styled(render(found))
    elif something:
        from repoagent.cli.uses.table import render as table

        terminal.styled(table(found, terminal))
    else:
        terminal.note(f"no other file uses {what}" if found.file else f"no symbol is named {what}")
    return Exit.DONE if something else Exit.NOTHING
