"""`repoagent doctor`: check the setup, and what to do about problems."""

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
_LEAST = 24  # columns

EPILOG = """\b
Examples:
  repoagent doctor
  repoagent doctor --online           also try to reach the models
  repoagent doctor --json | jq '.checks[] | select(.level != "ok")'

doctor never prints a key, only the name of its variable. The exit code is 1 if there
is an error; warnings do not count."""


@click.command(epilog=EPILOG)
@click.option("--online", is_flag=True, help="Also check whether the configured models can be reached.")
@json_option
@pass_session
def command(session: Session, online: bool, as_json: bool) -> Exit:
    """Check the setup: git, Python, grammars, models, keys, the repository, the machine.

    doctor changes nothing, and uses the network only with --online. Each problem comes with a remedy.
    """
    from repoagent.reports.doctor import examine

    terminal = session.terminal()
    found = examine(Path.cwd(), online=online)
    levels = {level: sum(check.level == level for check in found) for level in STYLES}
    if as_json:
        checks = [
            {"name": one.name, "level": one.level, "result": one.result, "advice": one.advice or None}
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
    """The level, the name of the check and its result; below that the remedy."""
    indent = " " * (9 + wide + 2)
    level = paint(check.level, STYLES[check.level]) if terminal.color else check.level
    head = f"{level}{' ' * (9 - len(check.level))}{check.name}{' ' * (wide - display_width(check.name) + 2)}"
    room = max(_LEAST, terminal.width - len(indent)) if terminal.shows else None
    lines = [
        *_folded(one_line(check.result), room),
        *_folded(f"-> {one_line(check.advice)}" * bool(check.advice), room),
    ]
    return head + f"\n{indent}".join(lines) + "\n"


def _folded(text: str, room: int | None) -> list[str]:
    """`text` on lines of at most `room` columns, broken between words; a longer word stays whole."""
    lines: list[str] = []
    for word in text.split(" ") if text else ():
        if lines and (room is None or display_width(f"{lines[-1]} {word}") <= room):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
