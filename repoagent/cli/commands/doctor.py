"""`repoagent doctor`: check the setup, with a remedy for each problem."""

from __future__ import annotations

from pathlib import Path

import click

from repoagent.cli.session import Session, json_option, pass_session, select_fields, write_json
from repoagent.cli.ui.table import Cell, Column, Page
from repoagent.display_text import display_width, one_line, plural
from repoagent.errors import Exit

_COLUMNS = (Column("level"), Column("check"), Column("result"))
STYLES = {"ok": "green", "warning": "yellow", "error": "red"}

EPILOG = """\b
Examples:
  repoagent doctor
  repoagent doctor --json | jq '.checks[] | select(.level != "ok")'

doctor never prints a key, only the name of its variable. The exit code is 1 if there
is an error; warnings do not count."""


@click.command(epilog=EPILOG)
@json_option
@pass_session
def command(session: Session, as_json: bool) -> Exit:
    """Check the setup: git, Python, grammars, models, keys, the repository, the machine.

    doctor changes nothing and does not use the network. Each problem comes with a remedy.
    """
    from repoagent.reports.doctor import run_all_checks

    terminal = session.terminal()
    checks = run_all_checks(Path.cwd())
    levels = {level: sum(check.level == level for check in checks) for level in STYLES}
    if as_json:
        rows = [select_fields(check, "name", "level", "result", "advice") for check in checks]
        write_json(terminal, {"checks": rows, "count": levels})
    else:
        page = Page.of(terminal)
        cells: list[tuple[Cell, ...]] = []
        below: dict[int, list[str]] = {}
        columns = zip(("level", "check"), *(check[1::-1] for check in checks), strict=True)
        indent = " " * sum(2 + max(map(display_width, column)) for column in columns)
        for number, check in enumerate(checks):
            result, *rest = page.wrap(one_line(check.result), indent=indent)
            cells.append(((check.level, STYLES[check.level]), check.name, result[len(indent) :]))
            advice = page.wrap(f"-> {one_line(check.advice)}", indent=indent) if check.advice else []
            below[number] = [*rest, *advice]
        page.write(page.table(_COLUMNS, cells, below), terminal)
        counts = [
            f"{count} ok" if level == "ok" else plural(count, level)
            for level, count in levels.items()
            if count
        ]
        terminal.note(", ".join(counts))
    return Exit.NOTHING if levels["error"] else Exit.DONE
