"""`repoagent conversation branch`: a new conversation that begins as another does."""

from __future__ import annotations

import click

from repoagent.cli.conversation.common import examples, name_argument, open_desk, say_change, turns
from repoagent.cli.program.session import Session, json_option, pass_session


@click.command(epilog=examples("branch money decimal --at 2", "branch file:src/app.py other-way"))
@name_argument()
@click.argument("new", metavar="NEW")
@click.option("--at", type=int, metavar="TURN", help="Take the turns up to TURN, from 1.  [default: all]")
@json_option
@pass_session
def command(session: Session, /, *, name: str, new: str, at: int | None, as_json: bool) -> None:
    """Begin the conversation NEW with the turns of NAME, up to TURN as `show` numbers them.

    NAME stays as it is.
    """
    from repoagent.memory.conversations import branch, find, named

    desk = open_desk(session)
    place = named(desk.layout, new, own=True)
    found = find(desk.here, name)
    done = branch(desk.layout, found, place, turns=at)
    count = len(found.conversation.turns)
    taken = count if at is None else at
    of = "" if taken == count else f" of {count:,}"
    sentence = f"{place.name} begins with {turns(taken)}{of} of {found.place.name}"
    say_change(
        desk, "branch", place, done, sentence, as_json=as_json, **{"from": found.place.name, "turns": taken}
    )
