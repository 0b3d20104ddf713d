"""`repoagent conversation undo` and `redo`: take the last change of a conversation back, and make it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from repoagent.cli.conversation.common import GROUP, examples, name_argument, open_desk, say_change, word
from repoagent.cli.program.session import Session, json_option, pass_session

if TYPE_CHECKING:
    from repoagent.memory.conversations.take_back import TakenBack


@click.command(epilog=examples("undo decimal", "undo file:src/app.py"))
@name_argument()
@json_option
@pass_session
def undo(session: Session, /, *, name: str, as_json: bool) -> None:
    """Take the last change of NAME by a command back: save, load, branch, edit, delete, compact.

    What was said or written since stays, where both fit together; where they do not, nothing is done.
    """
    from repoagent.memory.conversations import undo

    desk = open_desk(session)
    place = desk.here.place(name, own=True)
    found = undo(desk.layout, desk.worktree, place, warn=desk.terminal.warn)
    how = "as it was before" if found.present else "put away again"
    how += ", and what was written since is in it" if found.merged else ""
    again = f"`{GROUP} redo {word(place.name)}` makes it again"
    sentence = f"took the {found.change.command} back: {place.name} is {how}; {again}"
    say_change(desk, "undo", place, found.result, sentence, as_json=as_json, **_more(found))


@click.command(epilog=examples("redo decimal", "redo file:src/app.py"))
@name_argument()
@json_option
@pass_session
def redo(session: Session, /, *, name: str, as_json: bool) -> None:
    """Make the change of NAME again that was taken back last."""
    from repoagent.memory.conversations import redo

    desk = open_desk(session)
    place = desk.here.place(name, own=True)
    found = redo(desk.layout, desk.worktree, place, warn=desk.terminal.warn)
    sentence = f"made the {found.change.command} of {place.name} again"
    sentence += ", and what was written since is in it" if found.merged else ""
    say_change(desk, "redo", place, found.result, sentence, as_json=as_json, **_more(found))


def _more(found: TakenBack) -> dict[str, object]:
    return {"of": found.change.command, "merged": found.merged, "present": found.present}
