"""`repoagent conversation list`: what is kept, at a glance."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from repoagent.cli.conversation.common import VERSION, examples, open_desk
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.screen.clean import one_line
from repoagent.cli.screen.glance import Cell, Column, ago, table
from repoagent.errors import Exit, NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.memory.conversations import Entry

COLUMNS = (
    Column("name", cut="middle", least=26),
    Column("kind", dropped=1),
    Column("turns", right=True),
    Column("size", right=True, dropped=3),
    Column("last"),
    Column("remarks", cut="end", least=26, dropped=2),
)
_BRIEF = 76  # columns, below which it says "2h", not "2 hours ago"


@click.command(epilog=examples("list --files", "list --json | jq -r '.conversations[].name'"))
@click.option("--files", is_flag=True, help="Also list those of files, as file:PATH.")
@click.option("-z", "zero", is_flag=True, help="Print names only, each with a NUL byte after it.")
@json_option
@pass_session
def command(session: Session, /, *, files: bool, zero: bool, as_json: bool) -> int:
    """List the conversations that are kept: what each is, how long, when it was spoken in.

    Of kind file is what was said about one file, edit what an edit at work, or one that did not come to its end, has
    said so far, run what a task said; all else is general.
    """
    from repoagent.memory.conversations import entries, entries_of_files

    desk = open_desk(session)
    found = entries(desk.layout)
    if files:
        found += entries_of_files(desk.layout, warn=desk.terminal.warn)
    if zero and as_json:
        raise UsageError("-z and --json are two forms of one list: say one of them")
    if zero:
        desk.terminal.result("".join(f"{entry.place.name}\0" for entry in found))
    elif as_json:
        value = {"version": VERSION, "conversations": [_as_object(entry) for entry in found]}
        desk.terminal.result(json.dumps(value, indent=2) + "\n")
    elif not found:
        more = "" if files else "; --files lists those of files"
        raise NothingDone(f"no conversation is kept under a name yet{more}")
    else:
        _show(found, desk.terminal)
    return Exit.DONE if found else Exit.NOTHING


def _show(found: Sequence[Entry], terminal: Terminal) -> None:
    from repoagent.cli.screen.terminal import has_utf8

    shown = terminal.shows
    width = terminal.width if shown else None
    rows = [_cells(entry, shown, brief=shown and terminal.width < _BRIEF) for entry in found]
    ellipsis = "…" if has_utf8(os.environ) else "..."
    for line in table(COLUMNS, rows, width, color=terminal.color, ellipsis=ellipsis):
        terminal.styled(f"{line}\n")
    for entry in found if shown else ():
        if entry.problem:
            terminal.warn(f"{one_line(entry.place.path.name)}: {entry.problem}")


def _cells(entry: Entry, for_people: bool, *, brief: bool) -> tuple[Cell, ...]:
    size = f"{entry.size / 1000:,.1f} kB" if for_people else str(entry.size)
    cells = (
        one_line(entry.place.name),
        "file" if entry.about else entry.place.kind,
        "-" if entry.problem else f"{entry.turns:,}",
        size,
        (_ago(entry.last, short=brief) if for_people else entry.last) or "-",
        one_line(_remark(entry, for_people)),
    )
    return tuple((cell, *(["red"] if entry.problem else [])) for cell in cells)


def _remark(entry: Entry, for_people: bool) -> str:
    about = f"about {entry.about}" if entry.about and not entry.place.about else ""
    parts = [entry.trouble if for_people else entry.problem, entry.state, about]
    return ", ".join(part for part in parts if part)


def _ago(moment: str, *, short: bool = False) -> str:
    try:
        at = datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
        return ago(max(0.0, time.time() - at), short=short)
    except (ValueError, OverflowError):  # written by hand
        return one_line(moment)[: 10 if short else 16]


def _as_object(entry: Entry) -> dict[str, object]:
    return {
        "name": entry.place.name,
        "kind": "file" if entry.about else entry.place.kind,
        "file": entry.about or None,
        "path": str(entry.place.path),
        "turns": None if entry.problem else entry.turns,
        "size": entry.size,
        "last": entry.last or None,
        "state": entry.state or None,
        "problem": entry.problem or None,
    }
