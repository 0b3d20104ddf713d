"""`repoagent conversation load`: make a saved conversation that of a file."""

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
from repoagent.errors import UsageError


@click.command(
    epilog=examples("load decimal --into src/app.py", "load money        into the file it was saved from")
)
@name_argument()
@click.option("--into", metavar="FILE", help="Load it for FILE.  [default: the one it was saved from]")
@json_option
@pass_session
def command(session: Session, /, *, name: str, into: str | None, as_json: bool) -> None:
    """Make a copy of NAME what was said about FILE: the next edit of FILE goes on from there.

    What was said about it until now is kept, and `undo file:FILE` brings it back.
    """
    from repoagent.memory.conversations import find, load
    from repoagent.memory.conversations.origin import about_of

    desk = open_desk(session)
    found = find(desk.here, name)
    if into is None:
        about = about_of(found.text)
        if not about:
            raise UsageError(f"{found.place.name} does not say which file it is about: say --into FILE")
        into = str(desk.worktree.top / about)
    place = desk.here.file(into, make=True)
    if place.key == found.place.key:
        raise UsageError(f"{place.name} would be a copy of itself: name another conversation")
    done = load(desk.layout, found, place)
    count = len(found.conversation.turns)
    sentence = f"{place.about} now has the {turns(count)} of {found.place.name}"
    if done.before:
        sentence += f"; `{GROUP} undo {word(place.name)}` brings back what it had"
    say_change(
        desk, "load", place, done, sentence, as_json=as_json, **{"from": found.place.name, "turns": count}
    )
