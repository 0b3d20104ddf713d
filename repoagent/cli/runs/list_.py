"""`repoagent runs list`: live and past runs at a glance."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.program.session import Session, pass_session
from repoagent.cli.runs.common import (
    ON_A_TERMINAL,
    STATES,
    VERSION,
    as_object,
    list_options,
    opened,
)
from repoagent.errors import Exit, NothingDone

if TYPE_CHECKING:
    from repoagent.cli.runs.common import Here
    from repoagent.work.home import Run

EXAMPLES = f"""\b
Examples:
  repoagent runs list --live
  repoagent runs list --json | jq -r '.runs[].name'

{STATES}"""


@click.command("list", epilog=EXAMPLES)
@list_options
@pass_session
def command(session: Session, /, *, live: bool, limit: int | None, everything: bool, **options: Any) -> int:
    """List runs, those that began last first, each one that was delegated below its parent."""
    from repoagent.work.home import runs

    here = opened(session)
    found = runs(here.layout, warn=here.terminal.warn)
    if live:
        found = [run for run in found if run.alive]
    as_json = options["as_json"]
    if limit is None and here.terminal.shows and not (as_json or everything):
        limit = ON_A_TERMINAL
    shown = found[:limit]
    if as_json:
        content = {"version": VERSION, "runs": [as_object(run) for run in shown], "of": len(found)}
        here.terminal.result(json.dumps(content, indent=2) + "\n")
    elif found:
        _show(here, shown)
        if len(found) > len(shown):
            here.terminal.note(f"and {len(found) - len(shown):,} older: --all lists them too", "dim")
    elif live:
        here.terminal.note("no run is alive")
    else:
        raise NothingDone('there is no run here yet: `repoagent run "TASK"` begins one')
    return Exit.DONE if found else Exit.NOTHING


def _show(here: Here, found: list[Run]) -> None:
    from repoagent.cli.runs.table import lines
    from repoagent.cli.screen.terminal import has_utf8
    from repoagent.work.home import tree

    terminal = here.terminal
    wide = terminal.width if terminal.shows else None
    text = lines(tree(found), wide, color=terminal.color, utf8=has_utf8(os.environ))
    terminal.styled("".join(f"{line}\n" for line in text))
