"""`repoagent conversation save`: keep a copy of a conversation under a name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from repoagent.cli.conversation.common import (
    GROUP,
    complete_name,
    examples,
    open_desk,
    say_change,
    turns,
    word,
)
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import NothingDone, Refused

if TYPE_CHECKING:
    from repoagent.cli.conversation.common import Desk
    from repoagent.memory.conversations.places import Held


@click.command(
    epilog=examples(
        "save money", "save money --from file:src/app.py", "save theirs --from - < conversation.md"
    )
)
@click.argument("name", metavar="NAME")
@click.option(
    "--from", "source", metavar="NAME|file:PATH", shell_complete=complete_name,
    help="What to copy; - reads a conversation file from standard input.  [default: of the file spoken about last]",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an existing one; undo restores it.")
@json_option
@pass_session
def command(session: Session, /, *, name: str, source: str | None, force: bool, as_json: bool) -> None:
    """Keep a copy of a conversation as NAME.

    It is a plain file, .repoagent/conversations/NAME.md. Keys and tokens in it are masked, and a line says which
    file it is about; all else is as it was said.
    """
    from repoagent.memory.conversations import named, save

    desk = open_desk(session)
    place = named(desk.layout, name, own=True)
    found = _source(desk, source)
    done = save(desk.layout, found, place, force=force)
    count = len(found.conversation.turns)
    sentence = f"saved {turns(count)} of {found.place.name} as {place.name}"
    if done.before and done.before != done.after:
        sentence += f"; `{GROUP} undo {word(place.name)}` brings back what was there"
    say_change(
        desk, "save", place, done, sentence, as_json=as_json, **{"from": found.place.name, "turns": count}
    )


def _source(desk: Desk, source: str | None) -> Held:
    from repoagent.memory.conversations import Place, find, last_spoken
    from repoagent.memory.conversations.places import held, parsed

    if source == "-":
        place = Place("standard input", "general", desk.layout.conversations / "-", "")
        try:
            return parsed(place, sys.stdin.buffer.read())
        except Refused as error:
            raise type(error)(str(error).replace(str(place.path), "standard input", 1)) from error
    if source is not None:
        return find(desk.here, source)
    last = last_spoken(desk.layout, warn=desk.terminal.warn)
    found = None if last is None else held(last)
    if found is None:
        raise NothingDone("nothing was said about any file yet: say what to copy with --from")
    return found
