"""`repoagent doctor`: is everything here that repoagent needs, and what is to be done."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.session import Session, json_option, pass_session
from repoagent.cli.ui.sanitize import display_width, one_line, paint
from repoagent.errors import Exit

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.reports.doctor import Check

VERSION = 1
STYLES = {"ok": "green", "warning": "yellow", "error": "red"}
_LEAST = 24  # columns: to fold a sentence to less makes it no better

EPILOG = """\b
Examples:
  repoagent doctor
  repoagent doctor --online           also ask the models whether they answer
  repoagent doctor --json | jq '.checks[] | select(.level != "ok")'

A key is never shown, only the name of the variable that holds it. The exit code is 1
if something is wrong; a warning does not count."""


@click.command(epilog=EPILOG)
@click.option("--online", is_flag=True, help="Also ask whether the configured models can be reached.")
@json_option
@pass_session
def command(session: Session, online: bool, as_json: bool) -> Exit:
    """Check the set-up and say what to do: git, Python, grammars, models, keys, the repository, the machine.

    Nothing is changed, and without --online nothing is asked over the network.
    """
    from repoagent.reports.doctor import examine

    terminal = session.terminal()
    found = examine(Path.cwd(), online=online)
    levels = {level: sum(check.level == level for check in found) for level in STYLES}
    if as_json:
        checks = [
            {"name": one.name, "level": one.level, "found": one.found, "advice": one.advice or None}
            for one in found
        ]
        terminal.result(json.dumps({"version": VERSION, "checks": checks, "count": levels}, indent=2) + "\n")
    else:
        terminal.styled(_table(found, terminal))
        summary = [
            f"{count} {level}{'s' * (count != 1 and level != 'ok')}"
            for level, count in levels.items()
            if count
        ]
        terminal.note(", ".join(summary))
    return Exit.NOTHING if levels["error"] else Exit.DONE


def _table(found: Sequence[Check], terminal: Terminal) -> str:
    wide = max(display_width(check.name) for check in found)
    return "".join(_entry(check, wide, terminal) for check in found)


def _entry(check: Check, wide: int, terminal: Terminal) -> str:
    """The level, what was looked at, how it is; below that what to do."""
    indent = " " * (9 + wide + 2)
    level = paint(check.level, STYLES[check.level]) if terminal.color else check.level
    head = f"{level}{' ' * (9 - len(check.level))}{check.name}{' ' * (wide - display_width(check.name) + 2)}"
    room = max(_LEAST, terminal.width - len(indent)) if terminal.shows else None
    lines = [
        *_folded(one_line(check.found), room),
        *_folded(f"-> {one_line(check.advice)}" * bool(check.advice), room),
    ]
    return head + f"\n{indent}".join(lines) + "\n"


def _folded(text: str, room: int | None) -> list[str]:
    """`text` on lines of `room` columns at most, broken between words; a longer word, a path, stays whole."""
    lines: list[str] = []
    for word in text.split(" ") if text else ():
        if lines and (room is None or display_width(f"{lines[-1]} {word}") <= room):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
