"""`repoagent memory status`: how much there is, and whether it is in order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from repoagent.cli.memory.common import VERSION, amount, count, name, opened
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.cli.screen.clean import paint

if TYPE_CHECKING:
    from repoagent.cli.memory.common import Here
    from repoagent.memory.overview.standing import Totals

_ASIDE = 10  # files that are named
_OPTIONS = ("memory.", "sent.")
EXAMPLES = """\b
Examples:
  repoagent memory status
  repoagent memory status --json | jq .states

What is set aside (NAME.broken-N) could not be read, and is never deleted: mend
it and give it its name back, or remove it."""


@click.command("status", epilog=EXAMPLES)
@json_option
@pass_session
def command(session: Session, /, as_json: bool) -> None:
    """Show how many memories there are and of which state, their size, what is set aside, and whether locks work."""
    from repoagent.memory.overview.standing import totals

    here = opened(session)
    with here.terminal.working("looking at all memories") as working:
        found = totals(here.layout, here.worktree, here.terminal.warn)
        working.quiet()
    if as_json:
        here.terminal.result(json.dumps(_as_object(found, here), indent=2) + "\n")
        return
    bold = ("bold",) if here.terminal.color else ()
    for title, lines in _parts(found, here):
        first, *rest = lines or ["none"]
        here.terminal.styled(f"{paint(f'{title:<11}', *bold)}{first}\n")
        here.terminal.styled("".join(f"{'':11}{line}\n" for line in rest))
    if found.locks:
        here.terminal.warn(found.locks)


def _parts(found: Totals, here: Here) -> list[tuple[str, list[str]]]:
    """(title, its lines), clean."""
    states = ", ".join(f"{number:,} {state}" for state, number in sorted(found.states.items()))
    held = [f"{name(here.shown(lock))}: {name(who)}" for lock, who in found.held]
    parts = [
        ("memories", [f"{found.count:,}" + (f": {states}" if states else "")]),
        ("hold", [f"{count(found.notes, 'note')}, {count(found.edits, 'edit')}"]),
        ("size", [f"{amount(found.size)}, and {amount(found.sent)} of requests as they were sent"]),
        ("where", [name(here.shown(here.layout.memory))]),
        ("index", [found.index]),
        ("kept", [f"{key} = {value}" for key, value in _options(here)]),
        ("set aside", _few([name(here.shown(path)) for path in found.set_aside])),
        ("locks", held or ["none is held" + ("" if found.locks else ", and they work here")]),
    ]
    if found.lacking:
        parts.insert(
            1,
            (
                "unusable",
                _few([f"{name(one)} has no identity.json that can be read" for one in found.lacking]),
            ),
        )
    return parts


def _few(lines: list[str]) -> list[str]:
    return lines if len(lines) <= _ASIDE else [*lines[:_ASIDE], f"and {len(lines) - _ASIDE:,} more"]


def _options(here: Here) -> list[tuple[str, object]]:
    return [(one.key, one.shown) for one in here.settings if one.key.startswith(_OPTIONS)]


def _as_object(found: Totals, here: Here) -> dict[str, object]:
    return {
        "version": VERSION,
        "folder": str(here.layout.memory),
        "memories": found.count,
        "states": {state: found.states[state] for state in ("live", "moved", "orphaned")},
        "unusable": list(found.lacking),
        "notes": found.notes,
        "edits": found.edits,
        "size": found.size,
        "sent_size": found.sent,
        "index": found.index,
        "options": dict(_options(here)),
        "set_aside": [str(path) for path in found.set_aside],
        "held": [{"lock": str(lock), "by": who} for lock, who in found.held],
        "locks": found.locks or None,
    }
