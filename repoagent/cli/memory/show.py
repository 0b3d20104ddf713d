"""`repoagent memory show`: all that is known about a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from repoagent.cli.memory.common import complete, opened
from repoagent.cli.program.session import Session, json_option, pass_session

if TYPE_CHECKING:
    from repoagent.cli.memory.common import Here
    from repoagent.memory.overview.known import Known

EXAMPLES = """\b
Examples:
  repoagent memory show src/app.py
  repoagent memory show src/app.py --conversation | less
  repoagent memory show app-py-1f2e3d4c         a memory whose file is gone
  repoagent memory show src/app.py --json | jq -r '.notes[].text'

A note about code that is gone from the file says so. What stands under "files"
are the plain files that all of this is read from: change them as you like."""


@click.command("show", epilog=EXAMPLES)
@click.argument("file", metavar="FILE", shell_complete=complete)
@click.option("--conversation", is_flag=True, help="Print the conversation only, turn by turn.")
@json_option
@pass_session
def command(session: Session, /, file: str, conversation: bool, as_json: bool) -> None:
    """Show what is known about FILE: notes, edits, how it was recognized, where it all stands.

    Nothing is changed by looking: a file that was moved is not re-keyed.
    """
    from repoagent.memory.overview.find import needed
    from repoagent.memory.overview.known import known

    here = opened(session)
    found = here.named(file)
    memory = needed(here.layout, here.worktree, found, warn=here.terminal.warn)
    told = known(here.layout, here.worktree, memory, found.data, warn=here.terminal.warn)
    if as_json:
        here.terminal.result(json.dumps(_as_object(told, here, turns=conversation), indent=2) + "\n")
        return
    from repoagent.cli.memory.page import conversation_text, page

    if told.broken:
        here.terminal.warn(told.broken)
    here.terminal.styled(conversation_text(told, here.terminal) if conversation else page(told, here))


def _as_object(told: Known, here: Here, *, turns: bool) -> dict[str, object]:
    from repoagent.cli.memory.common import VERSION
    from repoagent.cli.memory.list_ import as_object
    from repoagent.memory.identity.record import came_along
    from repoagent.memory.overview.rows import Row

    memory, identity = told.memory, told.memory.identity
    row = as_object(Row(memory.folder.name, told.measure, told.standing), here)
    notes = [{**vars(one.note), "gone": list(one.gone), "about_older_text": one.older} for one in told.notes]
    conversation: dict[str, object] = {
        "file": str(memory.conversation),
        "turns": len(told.turns),
        "exchanges": told.exchanges,
        "broken": told.broken or None,
    }
    if turns:
        conversation["content"] = [
            {"role": turn.role, "text": turn.text, "meta": dict(turn.meta)} for turn in told.turns
        ]
    return {
        "version": VERSION,
        **row,
        "notes": notes,
        "edits": [edit.to_dict() for edit in told.edits],
        "keys": dict(identity.keys),
        "places": {place: vars(seen) for place, seen in identity.places.items()},
        "earlier_paths": list(identity.earlier_paths),
        "strangers": list(identity.strangers),
        "rekeyings": [vars(one) for one in identity.rekeyings],
        "came_with_repository": came_along(memory.folder),
        "can_be_taken_back": None if told.undo is None else told.undo.before,
        "conversation": conversation,
        "cleared": [{"folder": str(put.folder), "parts": list(put.parts)} for put in told.cleared],
        "archived": [str(path) for path in told.archived],
    }
