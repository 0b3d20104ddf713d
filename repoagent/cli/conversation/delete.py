"""`repoagent conversation delete`: put a conversation away."""

from __future__ import annotations

import click

from repoagent.cli.conversation.common import (
    GROUP,
    examples,
    name_argument,
    open_desk,
    say_change,
    turns,
    word,
)
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import NothingDone, UsageError


@click.command(epilog=examples("delete money", "delete money --yes"))
@name_argument()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@pass_session
def command(session: Session, /, *, name: str, yes: bool, as_json: bool) -> None:
    """Put NAME away. Its text is kept, and `undo NAME` brings it back.

    A broken one can be put away too.
    """
    from repoagent.errors import Refused
    from repoagent.memory.conversations import change
    from repoagent.memory.conversations.places import missing, parsed
    from repoagent.store import read_regular

    desk = open_desk(session)
    place = desk.here.place(name, own=True)
    data = read_regular(place.path)
    if data is None:
        raise missing(desk.layout, place)
    try:
        what = turns(len(parsed(place, data).conversation.turns))
    except Refused:
        what = f"{len(data):,} bytes that are no conversation"
    if not yes:
        if not desk.terminal.can_ask:
            raise UsageError(f"say --yes to put {place.name} away ({what})")
        if desk.terminal.ask(f"Put {place.name} away ({what})", {"y": "do it", "n": "leave it"}) == "n":
            raise NothingDone(f"{place.name} stays")
    done = change(desk.layout, place, data, None, "delete")
    sentence = f"put {place.name} away; `{GROUP} undo {word(place.name)}` brings it back"
    say_change(desk, "delete", place, done, sentence, as_json=as_json)
