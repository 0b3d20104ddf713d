"""`repoagent memory list`: what is remembered, file by file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.memory.common import VERSION, amount, complete, name, opened
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.screen.clean import paint
from repoagent.cli.screen.glance import ago, columns, shorten
from repoagent.cli.screen.terminal import has_utf8
from repoagent.errors import Exit, NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.cli.memory.common import Here
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.memory.overview.rows import Row

ON_A_TERMINAL = 2_000  # rows; nobody reads more, and a hundred thousand take a while
_LEAST = 40  # columns
_NARROW = 76
_PATH = 12  # columns at least for a path
_STYLES = {"live": "green", "moved": "yellow", "orphaned": "red"}
EXAMPLES = """\b
Examples:
  repoagent memory list
  repoagent memory list src --sort used -n 10
  repoagent memory list --state orphaned,moved
  repoagent memory list -z | xargs -0 -n1 repoagent memory show

\b
Columns:
  size      of all that is kept for the file, its archive too
  edits     that were asked for, refused ones too
  notes     that are in notes.md
  last use  when something was last added
  state     live: the file is there; moved: its content is elsewhere, and
            where; orphaned: it is gone. Nothing is changed by looking."""


@click.command("list", epilog=EXAMPLES)
@click.argument("paths", metavar="[PATH]...", nargs=-1, shell_complete=complete)
@click.option(
    "--state", "states", metavar="STATE", multiple=True, help="List only live, moved or orphaned ones."
)
@click.option(
    "--sort", "order", type=click.Choice(["path", "used", "size", "edits"]), default="path", show_default=True,
    help="Sort by path, or the last used, largest or most edited first.",
)  # fmt: skip
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), metavar="N",
    help=f"List at most N; 0 for all. [default: {ON_A_TERMINAL:,} on a terminal]",
)  # fmt: skip
@click.option("-z", "nul", is_flag=True, help="Print paths only, each with a NUL byte after it.")
@json_option
@pass_session
def command(session: Session, /, paths: tuple[str, ...], **options: Any) -> int:
    """List what is remembered, file by file; of files and folders PATH only, if named."""
    from repoagent.memory.overview.rows import Wanted, rows
    from repoagent.repo.worktree import relative

    states = _states(options["states"])
    if options["nul"] and options["as_json"]:
        raise UsageError("-z and --json are two forms of one list: say one of them")
    here = opened(session)
    terminal = here.terminal
    limit = options["limit"] or (
        ON_A_TERMINAL if options["limit"] is None and terminal.shows and not options["as_json"] else None
    )
    wanted = Wanted(
        [relative(here.worktree, path, here.cwd) for path in paths],
        states,
        options["order"],
        None if limit is None else limit + 1,
    )
    found = rows(here.layout, here.worktree, wanted, terminal.warn)
    if options["as_json"]:
        listed = list(islice(found, limit))
        content = {"version": VERSION, "memories": [as_object(row, here) for row in listed]}
        terminal.result(json.dumps(content, indent=2) + "\n")
        return Exit.DONE if listed else Exit.NOTHING
    shown = _names(found, terminal, limit) if options["nul"] else _table(found, terminal, limit)
    if shown:
        return Exit.DONE
    if paths or states:
        about = f" of {', '.join(paths)}" if paths else ""
        kind = f" as {' or '.join(states)}" if states else ""
        terminal.note(f"nothing is remembered{about}{kind}")
        return Exit.NOTHING
    raise NothingDone("nothing is remembered in this repository yet: the first edit or note makes a memory")


def as_object(row: Row, here: Here) -> dict[str, object]:
    """A row as JSON data."""
    measure, standing = row.measure, row.standing
    return {
        "path": standing.path,
        "memory": row.name,
        "folder": str(here.layout.memory / row.name),
        "size": measure.size,
        "edits": measure.edits,
        "notes": measure.notes,
        "last_used": datetime.fromtimestamp(measure.used, timezone.utc).isoformat(timespec="seconds"),
        "state": standing.state,
        "at": standing.at or None,
    }


def _states(given: tuple[str, ...]) -> list[Any]:
    from repoagent.memory.overview.state import STATES

    states = [state.strip() for each in given for state in each.split(",") if state.strip()]
    for state in states:
        if state not in STATES:
            raise UsageError(f"'{state}' is no state: say {', '.join(STATES[:-1])} or {STATES[-1]}")
    return states


def _names(found: Iterator[Row], terminal: Terminal, limit: int | None) -> int:
    shown = 0
    for row in islice(found, limit):
        terminal.result(row.standing.path + "\0")
        shown += 1
    return shown


def _table(found: Iterator[Row], terminal: Terminal, limit: int | None) -> int:
    """Write the rows as they come; how many there were. What is left out is said."""
    wide = max(_LEAST, terminal.width) if terminal.shows else None
    form = _Form(wide, terminal.color, has_utf8(os.environ), time.time())
    shown, lines = 0, [form.head()]
    for row in found:
        if shown == limit:
            terminal.styled("".join(lines))
            terminal.note(f"and more: these are {shown:,}; say -n N, name a folder, or --state", "dim")
            return shown
        lines.append(form.line(row))
        shown += 1
        if shown < 20 or shown % 100 == 0:  # the first ones at once
            terminal.styled("".join(lines))
            lines.clear()
    if shown:
        terminal.styled("".join(lines))
    return shown


class _Form:
    """A line for each row, in `wide` columns (None for as many as it takes); the path comes last, so that no line has
    to wait for the others."""

    def __init__(self, wide: int | None, color: bool, utf8: bool, now: float) -> None:
        self._wide, self._color, self._now = wide, color, now
        self._short = wide is not None and wide < _NARROW
        self._ellipsis, self._arrow = ("…", "→") if utf8 else ("...", "->")
        self._used = 4 if self._short else 14

    def head(self) -> str:
        used = "used" if self._short else "last use"
        line = self._front("size", "edits", "notes", used) + f"{'state':8}  path"
        return (paint(line, "dim") if self._color else line) + "\n"

    def line(self, row: Row) -> str:
        measure, standing = row.measure, row.standing
        used = ago(max(0.0, self._now - measure.used), short=self._short)
        front = self._front(amount(measure.size), f"{measure.edits:,}", f"{measure.notes:,}", used)
        path, state = name(standing.path), f"{standing.state:8}"
        at = f" {self._arrow} {name(standing.at)}" if standing.at else ""
        if self._wide is not None:
            room = self._wide - columns(front) - 10
            if columns(path + at) > room:
                half = max((room - 3) // 2, _PATH) if at else max(room, _PATH)
                path = shorten(path, half, self._ellipsis)
                at = f" {self._arrow} {shorten(name(standing.at), half, self._ellipsis)}" if at else ""
        if self._color:
            state = paint(state, _STYLES[standing.state])
            folder, slash, base = path.rpartition("/")
            path = paint(folder + slash, "dim") + base
        return f"{front}{state}  {path}{at}\n"

    def _front(self, size: str, edits: str, notes: str, used: str) -> str:
        more = "" if self._short else f"{notes:>5}  "
        return f"{size:>7}  {edits:>5}  {more}{used:{self._used}}  "
