"""`repoagent conversation`: the group of its commands, a module for each.

What the commands of the group share: the place where they are run, the names they take, the answers they give.

`repoagent conversation branch`: a new conversation that begins as another does.

`repoagent conversation delete`: put a conversation away.

`repoagent conversation load`: make a saved conversation that of a file.

`repoagent conversation save`: keep a copy of a conversation under a name.

`repoagent conversation undo` and `redo`: take the last change of a conversation back, and make it again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import click

from repoagent.cli.app import LazyGroup
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.cli.ui.sanitize import one_line
from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, Refused, RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.git.worktree import WorkTree
    from repoagent.memory.conversation_changes import TakenBack
    from repoagent.memory.conversation_log import Change
    from repoagent.memory.conversations import Held, Here, Place
    from repoagent.storage.layout import Layout

__all__ = ["command"]

# name: (where its click command stands, what it does in one line)
COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("repoagent.cli.commands.conversation_list:list_command", "List the saved conversations."),
    "show": ("repoagent.cli.commands.conversation_list:show_command", "Show a conversation."),
    "save": ("repoagent.cli.commands.conversation:save_command", "Save a copy under a name."),
    "load": ("repoagent.cli.commands.conversation:load_command", "Load a saved one for a file."),
    "branch": (
        "repoagent.cli.commands.conversation:branch_command",
        "Start a new one with the turns of another.",
    ),
    "summarize": (
        "repoagent.cli.commands.conversation_edit:summarize_command",
        "Summarize one with a model.",
    ),
    "edit": (
        "repoagent.cli.commands.conversation_edit:edit_command",
        "Rewrite one, with a model or in your editor.",
    ),
    "undo": ("repoagent.cli.commands.conversation:undo", "Undo the last change of one."),
    "redo": ("repoagent.cli.commands.conversation:redo", "Redo a change that you undid."),
    "delete": ("repoagent.cli.commands.conversation:delete_command", "Delete one; undo restores it."),
}

EXAMPLES = """\b
Examples:
  repoagent conversation save parser --from file:src/parse.py
  repoagent conversation branch parser parser-2 --at 4
  repoagent conversation edit parser-2 "drop the talk about names"
  repoagent conversation load parser-2 --into src/parse.py

A conversation is named by its NAME, or as file:PATH: what was said about that
file. Each is a plain file that you may read and change by hand."""


class ConversationGroup(LazyGroup):
    table: ClassVar[Mapping[str, tuple[str, str]]] = COMMANDS


@click.group(cls=ConversationGroup, epilog=EXAMPLES, subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Keep, branch, rewrite and put away what was said, by name."""


F = TypeVar("F", bound=Callable[..., Any])
VERSION = 1
GROUP = "repoagent conversation"


def examples(*lines: str, more: str = "") -> str:
    """The end of a command's help: what comes behind `repoagent conversation` in each example, and `more`."""
    shown = "\n".join(f"  {GROUP} {line}" for line in lines)
    return f"\b\nExamples:\n{shown}{more}"


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names that begin so; nothing where there is no repository, for a shell has no use for errors."""
    from repoagent.cli.session import find_layout
    from repoagent.memory.conversations import names

    try:
        layout = find_layout()
        return [] if layout is None else [name for name in names(layout) if name.startswith(incomplete)]
    except (RepoagentError, OSError):
        return []


def name_argument(parameter: str = "name", metavar: str = "NAME") -> Callable[[F], F]:
    """The argument that names a conversation that is there."""
    return click.argument(parameter, metavar=metavar, shell_complete=complete_name)


@dataclass(frozen=True)
class ConversationContext:
    """Where a command is run, with the terminal and the settings that hold there."""

    worktree: WorkTree
    layout: Layout
    here: Here
    settings: Settings
    terminal: Terminal


def open_desk(session: Session, flags: Mapping[str, object] | None = None) -> ConversationContext:
    """Open the repository that we are in. Raises UsageError outside of one."""
    from repoagent.git.worktree import layout, open_worktree
    from repoagent.memory.conversations import here

    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    place = layout(worktree)
    settings, terminal = session.open(place, flags)

    def why_not(path: str) -> str:
        from repoagent.edit.guards.scope import gate

        return gate(worktree.top, [path])(path) or ""

    at = here(place, worktree, cwd, why_not=why_not, warn=terminal.warn)
    return ConversationContext(worktree, place, at, settings, terminal)


def say_change(
    context: ConversationContext,
    command: str,
    place: Place,
    done: Change,
    sentence: str,
    *,
    as_json: bool,
    **more: object,
) -> None:
    """What a command has done: a sentence, or JSON data."""
    if as_json:
        value = {
            "version": VERSION,
            "command": command,
            "name": place.name,
            "kind": place.kind,
            "path": str(place.path),
            "changed": done.before != done.after,
            "before": done.before or None,
            "after": done.after or None,
            **more,
        }
        context.terminal.result(json.dumps(value, indent=2) + "\n")
        return
    context.terminal.styled(f"{one_line(sentence)}\n")


def turns(count: int) -> str:
    """ "1 turn", "12 turns"."""
    return f"{count:,} turn{'s' * (count != 1)}"


def word(name: str) -> str:
    """A name as it can be typed in a shell."""
    import shlex

    return shlex.quote(name)


@click.command(epilog=examples("branch money decimal --at 2", "branch file:src/app.py other-way"))
@name_argument()
@click.argument("new", metavar="NEW")
@click.option("--at", type=int, metavar="TURN", help="Take the turns up to TURN, from 1.  [default: all]")
@json_option
@pass_session
def branch_command(session: Session, /, *, name: str, new: str, at: int | None, as_json: bool) -> None:
    """Begin the conversation NEW with the turns of NAME, up to TURN as `show` numbers them.

    NAME stays as it is.
    """
    from repoagent.memory.conversation_changes import branch
    from repoagent.memory.conversations import find, named

    context = open_desk(session)
    place = named(context.layout, new, own=True)
    found = find(context.here, name)
    done = branch(context.layout, found, place, turns=at)
    count = len(found.conversation.turns)
    taken = count if at is None else at
    of = "" if taken == count else f" of {count:,}"
    sentence = f"{place.name} begins with {turns(taken)}{of} of {found.place.name}"
    say_change(
        context,
        "branch",
        place,
        done,
        sentence,
        as_json=as_json,
        **{"from": found.place.name, "turns": taken},
    )


@click.command(epilog=examples("delete money", "delete money --yes"))
@name_argument()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@pass_session
def delete_command(session: Session, /, *, name: str, yes: bool, as_json: bool) -> None:
    """Put NAME away. Its text is kept, and `undo NAME` brings it back.

    A broken one can be put away too.
    """
    from repoagent.errors import Refused
    from repoagent.memory.conversation_changes import change
    from repoagent.memory.conversations import missing, parsed
    from repoagent.storage.atomic import read_regular

    context = open_desk(session)
    place = context.here.place(name, own=True)
    data = read_regular(place.path)
    if data is None:
        raise missing(context.layout, place)
    try:
        what = turns(len(parsed(place, data).conversation.turns))
    except Refused:
        what = f"{len(data):,} bytes that are no conversation"
    if not yes:
        if not context.terminal.can_ask:
            raise UsageError(f"say --yes to put {place.name} away ({what})")
        if context.terminal.ask(f"Put {place.name} away ({what})", {"y": "do it", "n": "leave it"}) == "n":
            raise NothingDone(f"{place.name} stays")
    done = change(context.layout, place, data, None, "delete")
    sentence = f"put {place.name} away; `{GROUP} undo {word(place.name)}` brings it back"
    say_change(context, "delete", place, done, sentence, as_json=as_json)


@click.command(
    epilog=examples("load decimal --into src/app.py", "load money        into the file it was saved from")
)
@name_argument()
@click.option("--into", metavar="FILE", help="Load it for FILE.  [default: the one it was saved from]")
@json_option
@pass_session
def load_command(session: Session, /, *, name: str, into: str | None, as_json: bool) -> None:
    """Make a copy of NAME what was said about FILE: the next edit of FILE goes on from there.

    What was said about it until now is kept, and `undo file:FILE` brings it back.
    """
    from repoagent.memory.conversation_changes import load
    from repoagent.memory.conversations import about_of, find

    context = open_desk(session)
    found = find(context.here, name)
    if into is None:
        about = about_of(found.text)
        if not about:
            raise UsageError(f"{found.place.name} does not say which file it is about: say --into FILE")
        into = str(context.worktree.top / about)
    place = context.here.file(into, make=True)
    if place.key == found.place.key:
        raise UsageError(f"{place.name} would be a copy of itself: name another conversation")
    done = load(context.layout, found, place)
    count = len(found.conversation.turns)
    sentence = f"{place.about} now has the {turns(count)} of {found.place.name}"
    if done.before:
        sentence += f"; `{GROUP} undo {word(place.name)}` brings back what it had"
    say_change(
        context, "load", place, done, sentence, as_json=as_json, **{"from": found.place.name, "turns": count}
    )


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
def save_command(session: Session, /, *, name: str, source: str | None, force: bool, as_json: bool) -> None:
    """Keep a copy of a conversation as NAME.

    It is a plain file, .repoagent/conversations/NAME.md. Keys and tokens in it are masked, and a line says which
    file it is about; all else is as it was said.
    """
    from repoagent.memory.conversation_changes import save
    from repoagent.memory.conversations import named

    context = open_desk(session)
    place = named(context.layout, name, own=True)
    found = _source(context, source)
    done = save(context.layout, found, place, force=force)
    count = len(found.conversation.turns)
    sentence = f"saved {turns(count)} of {found.place.name} as {place.name}"
    if done.before and done.before != done.after:
        sentence += f"; `{GROUP} undo {word(place.name)}` brings back what was there"
    say_change(
        context, "save", place, done, sentence, as_json=as_json, **{"from": found.place.name, "turns": count}
    )


def _source(context: ConversationContext, source: str | None) -> Held:
    from repoagent.memory.conversations import Place, find, held, last_spoken, parsed

    if source == "-":
        place = Place("standard input", "general", context.layout.conversations / "-", "")
        try:
            return parsed(place, sys.stdin.buffer.read())
        except Refused as error:
            raise type(error)(str(error).replace(str(place.path), "standard input", 1)) from error
    if source is not None:
        return find(context.here, source)
    last = last_spoken(context.layout, warn=context.terminal.warn)
    found = None if last is None else held(last)
    if found is None:
        raise NothingDone("nothing was said about any file yet: say what to copy with --from")
    return found


@click.command(epilog=examples("undo decimal", "undo file:src/app.py"))
@name_argument()
@json_option
@pass_session
def undo(session: Session, /, *, name: str, as_json: bool) -> None:
    """Take the last change of NAME by a command back: save, load, branch, edit, delete, compact.

    What was said or written since stays, where both fit together; where they do not, nothing is done.
    """
    from repoagent.memory.conversation_changes import undo

    context = open_desk(session)
    place = context.here.place(name, own=True)
    found = undo(context.layout, context.worktree, place, warn=context.terminal.warn)
    how = "as it was before" if found.present else "put away again"
    how += ", and what was written since is in it" if found.merged else ""
    again = f"`{GROUP} redo {word(place.name)}` makes it again"
    sentence = f"took the {found.change.command} back: {place.name} is {how}; {again}"
    say_change(context, "undo", place, found.result, sentence, as_json=as_json, **_more(found))


@click.command(epilog=examples("redo decimal", "redo file:src/app.py"))
@name_argument()
@json_option
@pass_session
def redo(session: Session, /, *, name: str, as_json: bool) -> None:
    """Make the change of NAME again that was taken back last."""
    from repoagent.memory.conversation_changes import redo

    context = open_desk(session)
    place = context.here.place(name, own=True)
    found = redo(context.layout, context.worktree, place, warn=context.terminal.warn)
    sentence = f"made the {found.change.command} of {place.name} again"
    sentence += ", and what was written since is in it" if found.merged else ""
    say_change(context, "redo", place, found.result, sentence, as_json=as_json, **_more(found))


def _more(found: TakenBack) -> dict[str, object]:
    return {"of": found.change.command, "merged": found.merged, "present": found.present}
